"""Who ran it: versions, source, commit, machine. Nothing here fails; what cannot be found out is None or unknown."""

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from validate.records.folder import now
from validate.records.model import Machine

PACKAGE = Path(__file__).resolve().parents[1]
NOT_INSTALLED = "not installed"
PARTS = (":/validate", ":/evals", ":/golden", ":/pyproject.toml")  # what runs of the suite depend on; not their own output
IMAGE = "K3_PARITY_IMAGE"  # the variable by which a runner says which image it started: from within a container nobody can tell
_DISTRIBUTIONS = ("k3-parity", "torch", "numpy", "pydantic", "pytest", "pytest-xdist")
_COMPILERS = ("triton", "nvidia-cutlass-dsl", "apache-tvm-ffi", "flashinfer-python")  # of vLLM's kernels; where installed


def made(*beside: str, **further: str) -> dict[str, Any]:
    """``records.model.Made``'s fields, of a run that begins now.

    ``beside``: packages whose code runs, too. ``further``: versions of what else it depends on.
    """
    return {"versions": versions() | further, **code(*beside), "machine": machine(), "start": now()}


def code(*beside: str) -> dict[str, Any]:
    """Its source, commit, and whether that is all."""
    head, dirty = commit()
    return {"source": source(*beside), "commit": head, "dirty": dirty}


def versions() -> dict[str, str]:
    """Python's version and those of the distributions that measurements depend on."""
    compilers = {name: version(name) for name in _COMPILERS}
    found = {"python": sys.version.split()[0]} | {name: version(name) for name in _DISTRIBUTIONS}
    return found | {name: there for name, there in compilers.items() if there != NOT_INSTALLED}


def version(distribution: str) -> str:
    """Of an installed distribution; "not installed" without it."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED


def source(*beside: str) -> str:
    """A digest of this package's Python files, and of those of packages ``beside`` it, 16 hex digits."""
    digest = hashlib.sha256()
    for package in (PACKAGE, *(PACKAGE.parent / name for name in beside)):
        for path in sorted(package.rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def commit() -> tuple[str, bool] | tuple[None, None]:
    """The project's git commit and whether files of ``PARTS`` differ from it. None for a package outside its repository."""
    top = _git("rev-parse", "--show-toplevel")
    head = _git("rev-parse", "HEAD")
    if top is None or head is None or Path(top).resolve() != PACKAGE.parent:
        return None, None
    return head, _git("status", "--porcelain", "--", *PARTS) != ""  # not known to be clean where git gives no answer


def machine() -> Machine:
    """The machine that runs this. ``cores`` are those that the process may use."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return Machine(
        system=platform.platform(),
        cpu=_cpu(),
        cores=cores(),
        memory_gib=round(pages / 2**30, 1),
        gpus=_gpus(),
        image=os.environ.get(IMAGE) or None,  # set to nothing by a workflow whose variable is not there
    )


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gpus() -> tuple[str, ...]:
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.strip().splitlines()) if done.returncode == 0 else ()


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def _git(*arguments: str) -> str | None:
    try:  # without locks: git status would write to the index, while someone commits, say
        command = ["git", "--no-optional-locks", "-C", str(PACKAGE), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
