"""The subjects of a run, made from their names."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from validate import faults
from validate.errors import InputError
from validate.model.call import Call
from validate.paths import Subject
from validate.paths.emulated import Emulated
from validate.profiles import Profile
from validate.records.model import VllmFiles

CAPABILITY = {"hopper": (9, 0), "gb300": (10, 3)}  # compute capability of the GPUs that a profile runs on


def make(profile: Profile, planted: str | None = None, vllm_src: str | None = None) -> list[Subject]:
    """The subjects that a profile names. InputError for an unknown one.

    ``planted`` names a fault that is put into the emulated path it belongs to; the subject keeps its name, so that the
    run can be compared with a sound one. ``vllm_src`` is a folder with vLLM's sources, None an installed vLLM; an
    emulated profile is given ``vllm-default``, interpreted, where the folder is named.
    """
    fault = faults.find(planted) if planted else None
    emulated = profile.runs_on == "emulated"
    made = [_named(name, fault, vllm_src, profile) for name in profile.subjects]
    for subject in made:
        if isinstance(subject, _RunsVllm) and (there := subject.capability()) is not None:
            right_gpu(profile, there)
    return [*made, _vllm("default", vllm_src, profile.gpus, interpreted=True)] if emulated and vllm_src else made


def right_gpu(profile: Profile, there: tuple[int, int]) -> None:
    """InputError where the GPU that is there is not of the compute capability that the profile runs on."""
    if there != CAPABILITY[profile.runs_on]:
        wanted, found = (".".join(map(str, version)) for version in (CAPABILITY[profile.runs_on], there))
        raise InputError(f"profile {profile.name} runs on GPUs of compute capability {wanted}, this one has {found}")


def kernel_paths(profile: Profile) -> list[str]:
    """The paths that the profile runs by vLLM's kernels. InputError for an unknown subject."""
    return [path for kind, path in map(_kind_and_path, profile.subjects) if kind == "vllm"]


def processes(profile: Profile, call: Call) -> int:
    """How many processes, one a GPU, run a call together on the profile's GPUs: on any machine, run by none."""
    if profile.runs_on == "emulated":
        return 1
    from validate.paths.vllm import ranks_of

    chosen = [_chosen(path, profile, call) for path in kernel_paths(profile)]
    return max([ranks_of(adapter, call) for adapter in chosen if not isinstance(adapter, str)], default=1)


def without_gpu(profile: Profile, vllm_src: str | None = None) -> Mapping[str, Callable[[Call], str | None]]:
    """By name, what each subject of ``make`` would say it misses on the profile's GPUs: on any machine, run by none.

    vLLM's adapters decide from the call alone, so this does not need vLLM.
    """
    if profile.runs_on == "emulated":
        return {subject.name: subject.missing for subject in make(profile, vllm_src=vllm_src)}
    # The kernels: beside them the others are emulated.
    return {f"vllm-{path}": _asked(path, profile) for path in kernel_paths(profile)}


def sound_and_faulty(names: Iterable[str]) -> list[Subject]:
    """The sound default path and the faults of these names, each as a subject named after it."""
    return [Emulated("default"), *(faults.find(name).subject() for name in names)]


def vllm_files(made: Iterable[Subject]) -> VllmFiles | None:
    """Which vLLM the subjects run; None if none does."""
    found = [subject.files() for subject in made if isinstance(subject, _RunsVllm)]
    if not found:
        return None
    return found[0].model_copy(update={"files": {name: digest for one in found for name, digest in one.files.items()}})


@runtime_checkable
class _RunsVllm(Protocol):
    def files(self) -> VllmFiles: ...

    def capability(self) -> tuple[int, int] | None: ...


def _named(name: str, planted: faults.Fault | None, vllm_src: str | None, profile: Profile) -> Subject:
    kind, path = _kind_and_path(name)
    if kind == "vllm":
        if profile.runs_on == "emulated":
            raise InputError(f"{name} in an emulated profile: name vLLM's sources by --vllm-src instead")
        return _vllm(path, vllm_src, profile.gpus, interpreted=False)
    if planted is not None and planted.path == path:
        return Emulated(path, {planted.stage: planted.implementation})
    return Emulated(path)


def _kind_and_path(name: str) -> tuple[str, str]:
    kind, _, path = name.partition("-")
    if path not in ("default", "specialized") or kind not in ("emulated", "vllm"):
        raise InputError(f"unknown subject '{name}': there are emulated- and vllm-, each with default and specialized")
    return kind, path


def _asked(path: str, profile: Profile) -> Callable[[Call], str | None]:
    def ask(call: Call) -> str | None:
        chosen = _chosen(path, profile, call)
        return chosen if isinstance(chosen, str) else None

    return ask


def _chosen(path: str, profile: Profile, call: Call) -> Any:
    """The adapter that runs a call on the profile's GPUs, or why none does."""
    from validate.paths.vllm import choose, source

    return choose(path, call, source.Source(Path()), CAPABILITY[profile.runs_on], profile.gpus)


@cache
def _vllm(path: str, folder: str | None, gpus: int, *, interpreted: bool) -> Subject:
    from validate.paths.vllm import Vllm, source  # Triton is not needed without it

    return Vllm(path, source.opened(Path(folder) if folder else None, interpreted=interpreted), gpus)
