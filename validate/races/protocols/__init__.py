"""The protocols, in the order in which a decode layer runs them."""

from validate.races.protocol import Protocol
from validate.races.protocols import (
    dcp,
    dependent_launch,
    experts,
    front,
    kda_cluster,
    moe_tail,
    o_proj,
    placement,
    plan,
    shared_experts,
    side_stream,
    small_batch,
    split_k,
    two_shot,
)

PROTOCOLS: tuple[Protocol, ...] = (
    split_k.PROTOCOL,
    kda_cluster.PROTOCOL,
    dcp.PROTOCOL,
    o_proj.PROTOCOL,
    two_shot.PROTOCOL,
    front.PROTOCOL,
    placement.PROTOCOL,
    shared_experts.PROTOCOL,
    small_batch.PROTOCOL,
    moe_tail.PROTOCOL,
    experts.PROTOCOL,
    side_stream.PROTOCOL,
    dependent_launch.PROTOCOL,
    plan.PROTOCOL,
)
