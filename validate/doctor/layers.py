"""Each layer of the suite, the command that runs it, and what it takes that is not here, as the layer itself decides it."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from validate import profiles
from validate.doctor import VLLM, data, machine, packages
from validate.doctor.lack import Lack, refusal
from validate.kernels import needs
from validate.records import provenance

NUMERICS = 5.3  # GiB of all its processes on two cores (golden/numerics)
ENGINES = 5.2  # GiB: four arms of the stand-in side by side, 1.3 GiB each
ASKED = "K3_PARITY_VLLM_SRC=FOLDER, or --vllm-src FOLDER, with an unpacked wheel of vLLM 0.33.0"


@dataclass(frozen=True)
class Layer:
    """``cpu``: whether a machine without a GPU is to run it. ``notes``: what else to know where it can run."""

    name: str
    command: str
    lacks: tuple[Lack, ...]
    notes: tuple[str, ...] = ()
    cpu: bool = False

    @property
    def can_run(self) -> bool:
        """Whether nothing is lacking."""
        return not self.lacks

    @property
    def by_nox(self) -> bool:
        """Whether nothing is lacking but what its nox session installs, where nox may."""
        session = self.command.startswith("nox -s ") and shutil.which("nox") and os.environ.get("K3_PARITY_ENV") != "current"
        return bool(self.lacks and session) and all(lack.by_nox for lack in self.lacks)


def all_of(vllm_src: Path | None) -> list[Layer]:
    """Every layer, in the order of README.md's commands. ``vllm_src``: the folder that holds vllm/, None the installed vLLM."""
    base = [*machine.python(), *packages.lacking(), *machine.disk()]
    made = partial(_layer, base)
    kernels = partial(_kernels, vllm_src)
    stand_in = [*packages.lacking_of("practice", "engine"), *packages.plugin(), *_model(), *machine.memory(ENGINES)]
    evals = packages.lacking_of("practice", "evals")
    layers = [
        made("numerics, emulated", "nox -s numerics", machine.memory(NUMERICS), cpu=True),
        *(
            made(f"numerics on {name}", _numerics(name), _on_gpu(name, kernels))
            for name in ("hopper", "gb300", "gb300-tp8", "gb300-tp16")
        ),
        made("build", "nox -s build", [*_compilers(), *_path(vllm_src)], _golden_tools(), cpu=True),
        made("races, models", "python -m validate races", cpu=True),
        made("races on a GPU", "nox -s races -- --gpu", [*_races(kernels)]),
        made("compute-sanitizer", "nox -s races -- --gpu --sanitize", [*_races(kernels), *machine.sanitizer()], _nvdisasm()),
        made("drift", "python -m validate drift", cpu=True),
        made("equivalence, stand-in", "nox -s equivalence", stand_in, cpu=True),
        made("long outputs, stand-in", "nox -s long_output", stand_in, cpu=True),
        made("evals, stand-in", "nox -s evals", [*evals, *(one for one in stand_in if one not in evals)], cpu=True),
        made("Kimi K3's servers on GB300", "python -m validate record gb300-tp16 --commands", _servers()),
        made("equivalence of Kimi K3, by URL", "python -m validate record gb300-tp16 --url URL"),
        made("long outputs of Kimi K3, by URL", "python -m validate long-output long-gb300-tp16 --default-url URL"),
        made(
            "evals of Kimi K3, by URL",
            "python -m validate evals gb300-tp16 --default-url URL",
            [*evals, *data.lacking("gb300-tp16")],
        ),
    ]
    return [*layers, _sign_off(layers)]


def cpu_layers_run(layers: Iterable[Layer]) -> bool:
    """Whether all can run that any machine is to run."""
    return all(layer.can_run or layer.by_nox for layer in layers if layer.cpu)


def _layer(
    base: list[Lack], name: str, command: str, lacks: Iterable[Lack] = (), notes: Iterable[str] = (), *, cpu: bool = False
) -> Layer:
    return Layer(name, command, (*base, *(one for one in lacks if one not in base)), tuple(notes), cpu)


def _numerics(profile: str) -> str:
    return f"nox -s numerics -- --profile {profile}"


def _on_gpu(name: str, kernels: Callable[[list[str]], list[Lack]]) -> list[Lack]:
    """A profile of vLLM's own kernels: its GPU first, without which the rest need not be looked at."""
    profile = profiles.load(name)
    gpu = machine.gpu(profile)
    paths = [subject.removeprefix("vllm-") for subject in profile.subjects if subject.startswith("vllm-")]
    return gpu or [*packages.lacking_of("build"), *machine.compiler(), *kernels(paths)]


def _races(kernels: Callable[[list[str]], list[Lack]]) -> list[Lack]:
    return machine.races_gpu() or [*packages.lacking_of("build"), *kernels(["specialized"])]


def _kernels(vllm_src: Path | None, paths: list[str]) -> list[Lack]:
    """VLLM's files, whose entry points must be those that the adapters call."""
    if importlib.util.find_spec("torch") is None:
        return []  # it is lacking already, and to look takes it
    from validate.paths import vllm
    from validate.paths.vllm import source

    return refusal(lambda: vllm.check(paths, source.opened(vllm_src)), ASKED)


def _path(vllm_src: Path | None) -> list[Lack]:
    """VLLM's files of the specialized decode, as the build check looks for them."""
    if importlib.util.find_spec("torch") is None:
        return []
    from validate.kernels import compiling
    from validate.paths.vllm import source

    there = vllm_src is not None
    return refusal(lambda: compiling.files(source.opened(vllm_src).root), ASKED, by_nox=not there)  # it downloads them


def _compilers() -> list[Lack]:
    """What the build check itself says is missing, and how it is installed."""
    found = []
    for pip in needs.missing():
        name, bare, _ = pip.partition(" (--no-deps)")
        found.append(Lack(f"{name} is not installed", f"pip install {'--no-deps ' if bare else ''}'{name}'", by_nox=True))
    return found


def _golden_tools() -> list[str]:
    """Tools in other versions than those that golden/kernels was recorded with: differences are INCONCLUSIVE then."""
    found = []
    for pip in (*needs.COMPILERS.values(), *needs.FILES.values()):
        name, _, pinned = pip.partition("==")
        name = name.partition("[")[0]
        here = provenance.version(name)
        if here not in (pinned, provenance.NOT_INSTALLED):
            found.append(f"{name} is {here}, golden/kernels has {pinned}: differences are INCONCLUSIVE")
    return found


def _nvdisasm() -> list[str]:
    from validate.races.gpu import sass

    return [] if sass.program() else ["no nvdisasm on the PATH or in Triton: known false reports are not told from others"]


def _model() -> list[Lack]:
    """The stand-in's weights, which lie in the project's folder."""
    from validate.equivalence import arm

    model = arm.load("cpu-bf16").model
    return [] if Path(model).is_dir() else [Lack(f"there is no {model} under {Path.cwd()}", "run it in the project's folder")]


def _servers() -> list[Lack]:
    """A node's GPUs, and an installed vLLM of the version that has the path."""
    gpu = machine.gpu(profiles.load("gb300-tp16"))
    there = provenance.version("vllm")
    install = f"pip install vllm=={VLLM}"
    if there == provenance.NOT_INSTALLED:
        return [*gpu, Lack("vLLM is not installed", install)]
    other = not there.startswith(VLLM)
    return [*gpu, *([Lack(f"vLLM is {there}, and {VLLM} is validated", install)] if other else [])]


def _sign_off(layers: Iterable[Layer]) -> Layer:
    """A release is signed off by what ran on GB300, and by nothing else."""
    wanted = ("numerics on gb300-tp16", "build", "races, models", "Kimi K3's servers on GB300", "evals of Kimi K3, by URL")
    lacks = [
        Lack(f"{layer.name} cannot run here") for layer in layers if layer.name in wanted and not (layer.can_run or layer.by_nox)
    ]
    return Layer("sign-off", "the runs on GB300 above; python -m validate signoff reads records made elsewhere", tuple(lacks))


def nox() -> str:
    """What nox changes about packages that are lacking."""
    if shutil.which("nox") is None:
        return "nox is not on the PATH (pip install nox): without it, layers run in this environment"
    return "nox is here: each session makes an environment of its own, with the packages that are lacking here"
