"""What a kernel is launched under, by name. One file each; its docstring says which bug it guards against."""

from collections.abc import Mapping

from validate.races.gpu.adversaries.adversary import Adversary, Undisturbed
from validate.races.gpu.adversaries.crowded import Crowded
from validate.races.gpu.adversaries.held_back import HeldBack
from validate.races.gpu.adversaries.poisoned import Poisoned
from validate.races.gpu.adversaries.predecessor import Predecessor
from validate.races.gpu.adversaries.successor import Successor
from validate.races.gpu.adversaries.words import Words

ADVERSARIES: Mapping[str, type[Adversary]] = {
    "undisturbed": Undisturbed,
    "words": Words,
    "held-back": HeldBack,
    "predecessor": Predecessor,
    "successor": Successor,
    "poisoned": Poisoned,
    "crowded": Crowded,
}
