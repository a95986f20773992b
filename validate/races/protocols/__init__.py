"""The protocols, in the order in which a decode layer runs them."""

from validate.races.protocol import Protocol
from validate.races.protocols import (
    dependent_launch,
    experts,
    kda_cluster,
    o_proj,
    placement,
    plan,
    shared_experts,
    side_stream,
    split_k,
)

PROTOCOLS: tuple[Protocol, ...] = (
    split_k.PROTOCOL,
    kda_cluster.PROTOCOL,
    o_proj.PROTOCOL,
    placement.PROTOCOL,
    shared_experts.PROTOCOL,
    experts.PROTOCOL,
    side_stream.PROTOCOL,
    dependent_launch.PROTOCOL,
    plan.PROTOCOL,
)
