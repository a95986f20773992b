"""The scenes of an arm set, without an engine."""

from rich.table import Table

from validate.equivalence.arm import ArmSet
from validate.equivalence.record import chosen, supposed


def table(arms: ArmSet, keyword: str | None) -> Table:
    """A row a scene, and the sums."""
    facts = supposed(arms)
    scenes = chosen(arms, facts, keyword)
    made = Table("scene", "requests", "tokens", "prompt lengths", "", title=f"{arms.name}: {arms.description}")
    for scene in scenes:
        lengths = [len(request.prompt) for request in scene.requests]
        words = (
            ["decode only"] * scene.decode_only
            + [f"proves {scene.proves}"] * bool(scene.proves)
            + [f"forces {scene.of}"] * bool(scene.of)
        )
        tokens = sum(request.tokens for request in scene.requests)
        made.add_row(scene.name, f"{len(lengths)}", f"{tokens}", f"{min(lengths)}-{max(lengths)}", ", ".join(words))
    requests = sum(len(scene.requests) for scene in scenes)
    total = sum(request.tokens for scene in scenes for request in scene.requests)
    made.add_section()
    made.add_row(f"{len(scenes)} scenes", f"{requests}", f"at most {total}", "", f"lengths for blocks of {facts.block} tokens")
    return made
