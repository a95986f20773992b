"""The protocols, in the order in which a decode layer runs them."""

from validate.races.protocol import Protocol
from validate.races.protocols import front, o_proj, two_shot

PROTOCOLS: tuple[Protocol, ...] = (o_proj.PROTOCOL, two_shot.PROTOCOL, front.PROTOCOL)
