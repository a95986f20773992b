"""The protocols, in the order in which a decode layer runs them."""

from validate.races.protocol import Protocol
from validate.races.protocols import (
    o_proj,
    placement,
    shared_experts,
)

PROTOCOLS: tuple[Protocol, ...] = (
    o_proj.PROTOCOL,
    placement.PROTOCOL,
    shared_experts.PROTOCOL,
)
