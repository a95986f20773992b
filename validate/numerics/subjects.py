"""The subjects of a run, made from their names."""

from collections.abc import Iterable
from pathlib import Path

from validate import faults
from validate.errors import InputError
from validate.paths import Subject
from validate.paths.emulated import Emulated
from validate.profiles import Profile


def make(profile: Profile, planted: str | None = None, vllm_src: str | None = None) -> list[Subject]:
    """The subjects that a profile names. InputError for an unknown one.

    ``planted`` names a fault that is put into the emulated path it belongs to; the subject keeps its name, so that the
    run can be compared with a sound one. ``vllm_src``, a folder with vLLM's sources, adds ``vllm-default``.
    """
    made = [_named(name, faults.find(planted) if planted else None) for name in profile.subjects]
    if vllm_src is None:
        return made
    from validate.paths.vllm import VllmDefault  # Triton is not needed without it

    return [*made, VllmDefault(Path(vllm_src))]


def sound_and_faulty(names: Iterable[str]) -> list[Subject]:
    """The sound default path and the faults of these names, each as a subject named after it."""
    return [Emulated("default"), *(faults.find(name).subject() for name in names)]


def _named(name: str, planted: faults.Fault | None) -> Subject:
    path = name.removeprefix("emulated-")
    if path not in ("default", "specialized") or path == name:
        raise InputError(f"unknown subject '{name}': this version has emulated-default and emulated-specialized")
    if planted is not None and planted.path == path:
        return Emulated(path, {planted.stage: planted.implementation})
    return Emulated(path)
