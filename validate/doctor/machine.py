"""What of a machine the layers take: a GPU with its driver, programs, memory, disk."""

import importlib.util
import shutil
import sys
import sysconfig
from pathlib import Path

from packaging.specifiers import SpecifierSet

from validate.doctor.lack import Lack, refusal
from validate.profiles import Profile
from validate.records import provenance

PYTHON = SpecifierSet(">=3.11")  # as in pyproject.toml
DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")  # of NVIDIA's driver on Linux, and of WSL's
GIB = 2**30
RUNS = 1.0  # GiB of disk for run folders


def python() -> list[Lack]:
    """The interpreter's version."""
    here = ".".join(map(str, sys.version_info[:3]))
    return [] if PYTHON.contains(here) else [Lack(f"Python {here}, and {PYTHON} is wanted", "install a newer Python")]


def memory(gib: float) -> list[Lack]:
    """All memory of the machine, where it can be found out."""
    there = provenance.machine().memory_gib
    return [Lack(f"{there} GiB of memory, and {gib} GiB are taken")] if 0 < there < gib else []


def disk(gib: float = RUNS) -> list[Lack]:
    """What is free where run folders and nox's environments go."""
    free = shutil.disk_usage(Path.cwd()).free / GIB
    return [Lack(f"{free:.1f} GiB free under {Path.cwd()}, and {gib} GiB are taken")] if free < gib else []


def driver() -> bool:
    """Whether there is a driver of an NVIDIA GPU at all: without one nobody need import torch to ask."""
    return shutil.which("nvidia-smi") is not None or any(Path(file).exists() for file in DEVICE_FILES)


def gpu(profile: Profile) -> list[Lack]:
    """The GPUs that a profile runs on, as the numerics decide: one of its compute capability, and as many as a node has."""
    if not driver():
        return [no_gpu()]
    if importlib.util.find_spec("torch") is None:
        return []  # it is lacking already, and it finds GPUs
    import torch

    from validate.numerics import subjects
    from validate.paths.vllm import device

    found = refusal(device.require) or refusal(lambda: subjects.right_gpu(profile, torch.cuda.get_device_capability()))
    count, wanted = torch.cuda.device_count(), profile.gpus_per_node
    if not found and count < wanted:
        found = [Lack(f"{count} GPUs here, and profile {profile.name} has {wanted} a node, on {profile.nodes} nodes")]
    return found


def races_gpu() -> list[Lack]:
    """The GPU that the races run on, as they decide."""
    if not driver():
        return [no_gpu()]
    if importlib.util.find_spec("torch") is None:
        return []  # it is lacking already, and it finds GPUs
    from validate.races.gpu import needs

    return refusal(needs.gpu)


def no_gpu() -> Lack:
    """Where there is no driver."""
    return Lack("no NVIDIA GPU: there is neither nvidia-smi nor a device file of its driver")


def compiler() -> list[Lack]:
    """What Triton compiles its launchers with, on a GPU: a C compiler and Python's headers."""
    found = []
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        found.append(Lack("no C compiler on the PATH, which Triton takes for its launchers", "apt-get install gcc"))
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.is_file():
        found.append(Lack(f"no {header}, which Triton's launchers include", "apt-get install python3-dev"))
    return found


def sanitizer() -> list[Lack]:
    """compute-sanitizer itself."""
    if importlib.util.find_spec("torch") is None:
        return []  # it is lacking already, and the sanitizer's sessions import it
    from validate.races.gpu import sanitizer

    return refusal(sanitizer.found, "install the CUDA toolkit, and put its bin on the PATH")
