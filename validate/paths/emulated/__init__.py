"""``emulated-default`` and ``emulated-specialized``: torch programs on a CPU, with each path's own rounding points,
accumulation dtype and order of reduction."""

from collections.abc import Callable, Mapping

from validate.model.call import Call
from validate.paths.emulated import kda

Stage = Callable[[], Callable[[Call], None]]  # a class whose instances run one call

DEFAULT: Mapping[str, Stage] = {"kda": kda.DefaultKda}
SPECIALIZED: Mapping[str, Stage] = {"kda": kda.SpecializedKda}


class Emulated:
    """One path's stages. ``planted`` replaces some of them by faulty ones; ``name`` then says which fault it is."""

    def __init__(self, path: str, planted: Mapping[str, Stage] | None = None, name: str | None = None) -> None:
        self.path = path
        self.name = name or f"emulated-{path}"
        self.stages = {**(DEFAULT if path == "default" else SPECIALIZED), **(planted or {})}

    def missing(self, call: Call) -> str | None:
        """Every stage is emulated at every size."""
        return None if call.stage in self.stages else f"{call.stage} is not emulated"

    def run(self, call: Call) -> None:
        """Runs the stage."""
        self.stages[call.stage]()(call)
