"""``emulated-default`` and ``emulated-specialized``: torch programs on a CPU, with each path's own rounding points,
accumulation dtype and order of reduction."""

from collections.abc import Callable, Mapping

from validate.model.call import Call
from validate.paths.emulated import kda, mla, o_proj, router

Stage = Callable[[], Callable[[Call], None]]  # a class whose instances run one call

DEFAULT: Mapping[str, Stage] = {
    "router": router.DefaultRouter,
    "kda": kda.DefaultKda,
    "mla": mla.DefaultMla,
    "o_proj": o_proj.DefaultOproj,
}
SPECIALIZED: Mapping[str, Stage] = {
    "router": router.SpecializedRouter,
    "kda": kda.SpecializedKda,
    "mla": mla.SpecializedMla,
    "o_proj": o_proj.SpecializedOproj,
}


class Emulated:
    """One path's stages. ``planted`` replaces some of them by faulty ones; ``name`` then says which fault it is."""

    def __init__(self, path: str, planted: Mapping[str, Stage] | None = None, name: str | None = None) -> None:
        self.path = path
        self.name = name or f"emulated-{path}"
        self.stages = {**(DEFAULT if path == "default" else SPECIALIZED), **(planted or {})}

    def missing(self, call: Call) -> str | None:
        """Why the stage is not emulated at this size: a class may say so itself; None if it is."""
        if call.stage not in self.stages:
            return f"{call.stage} is not emulated"
        reason = getattr(self.stages[call.stage], "missing", None)
        return reason(call) if reason else None

    def run(self, call: Call) -> None:
        """Runs the stage."""
        self.stages[call.stage]()(call)
