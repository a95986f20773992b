"""The command that records a scene anew in all arms and compares them."""

import shlex

from validate.records.arm import ArmManifest


def command(arm: ArmManifest, scene: str) -> str:
    """For one shell. Of an arm that was served: the command that prints those of the servers and recordings.

    A scene of forced tokens is named after the one whose tokens it forces (``scenes.Forced``), and needs it: the name of that
    one selects both. A decode-only scene is added where none is selected, since nothing else attests the specialized path.
    """
    of = max((name for name in arm.scenes if scene.endswith(f"-{name}")), key=len, default=scene)
    attests = [] if any(of in name for name in arm.decode_only) else list(arm.decode_only[:1])
    chosen = f"{shlex.quote(arm.arm_set)} -k {shlex.quote(' or '.join([of, *attests]))}"
    return f"python -m validate record {chosen} --commands" if arm.served else f"nox -s equivalence -- {chosen}"
