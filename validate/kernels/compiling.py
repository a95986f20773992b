"""Compiles variants in worker processes, and remembers what came out by the digest of what went in."""

import hashlib
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from validate.errors import InputError
from validate.kernels.deployment import Deployment
from validate.processes import end_workers
from validate.records.provenance import version

ARCHITECTURES = ("sm_100a", "sm_103a")  # B200 and GB200; B300 and GB300
# The files whose text decides what is compiled, under the folder that holds vllm/.
SOURCES = (
    "vllm/models/kimi_k3/nvidia/specialized_decode/**/*.py",
    "vllm/models/kimi_k3/nvidia/ops/cute_dsl/**/*.py",
    "vllm/models/kimi_k3/nvidia/recoverssm/**/*.py",
    "vllm/model_executor/kernels/linear/cute_dsl/*skinny_gemm.py",
)
# Files of this suite that decide what is remembered.
OWN = ("deployment.py", "driverless.py", "ptx.py", "recording.py", "resources.py", "../model/dimensions.py")
TOOLS = ("nvidia-cutlass-dsl", "flashinfer-python", "quack-kernels", "tokenspeed-mla", "apache-tvm-ffi")
ERROR_CHARACTERS = 400  # of a compiler's message that is recorded

Result = dict[str, Any]  # a fingerprint, or {"error": why it does not compile}


@dataclass(frozen=True)
class Plan:
    """What a source compiles for some deployments: variants by deployment, and each variant's digest."""

    deployments: dict[str, list[str]]
    signatures: dict[str, str]


class Cache:
    """Results by digest, one small file each, so that an interrupted run goes on where it was."""

    def __init__(self, folder: Path, root: Path, arch: str) -> None:
        self._folder = folder
        self._base = f"{arch}\n{_sources(root)}\n{_own()}\n" + "\n".join(f"{name} {version(name)}" for name in TOOLS)

    def get(self, key: str) -> Any:
        """What was put there; None if nothing was."""
        try:
            return json.loads(self._file(key).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise InputError(f"the cache's file {self._file(key)} cannot be read ({error}): delete it") from error

    def put(self, key: str, value: Any) -> None:
        """Written whole or not at all."""
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(value), encoding="utf-8")
        part.replace(file)

    def _file(self, key: str) -> Path:
        digest = hashlib.sha256(f"{self._base}\n{key}".encode()).hexdigest()
        return self._folder / digest[:2] / f"{digest[2:34]}.json"


class Compiler:
    """Worker processes for one source and architecture. Used as a context; they start when something is to be compiled."""

    def __init__(self, root: Path, arch: str, deployments: Sequence[Deployment], workers: int) -> None:
        self._workers = workers
        self._scratch = tempfile.TemporaryDirectory(prefix="k3-parity-")
        self._arguments = (root, arch, tuple(deployments), self._scratch.name)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # Ctrl-C, say: a variant that is half compiled is of no use
            end_workers()
        self._stop()
        self._scratch.cleanup()

    def plan(self) -> Plan:
        """Asks vLLM's own construction what it compiles. InputError if its files do not load or do not construct."""
        try:
            return self._started().submit(_planned).result()
        except BrokenProcessPool as error:
            raise InputError("vLLM's specialized decode cannot be constructed: see the message above") from error

    def compile(self, names: Sequence[str]) -> Iterator[tuple[str, Result]]:
        """Each variant's result as it comes. A compiler that dies is a result, too."""
        waiting = list(reversed(names))
        running: dict[Future[Result], str] = {}
        while waiting or running:
            while waiting and len(running) < self._workers:
                name = waiting.pop()
                running[self._submitted(name)] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            suspects = []
            for future in done:
                name = running.pop(future)
                try:
                    yield name, future.result()
                except BrokenProcessPool:
                    suspects.append(name)
            if suspects:  # the pool is lost with all that ran in it: one of them killed it
                suspects += running.values()
                running.clear()
                self._stop()
                yield from ((name, self._alone(name)) for name in suspects)

    def _alone(self, name: str) -> Result:
        try:
            return self._submitted(name).result()
        except BrokenProcessPool:
            self._stop()
            return {"error": "the compiler's process died"}

    def _submitted(self, name: str) -> Future[Result]:
        try:
            return self._started().submit(_compiled, name)
        except BrokenProcessPool:  # a process died since the last wait: what ran in it says so, and this kernel is not to blame
            self._stop()
            return self._started().submit(_compiled, name)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            spawn = get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, spawn, initializer=_start, initargs=self._arguments)
        return self._pool

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def files(root: Path) -> list[Path]:
    """VLLM's files that decide what is compiled. InputError if there are none."""
    found = sorted(file for pattern in SOURCES for file in root.glob(pattern))
    if not found:
        raise InputError(f"there is no specialized decode of Kimi K3 under {root}: vLLM 0.33.0 has it")
    return found


def _sources(root: Path) -> str:
    digest = hashlib.sha256()
    for file in files(root):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _own() -> str:
    here = Path(__file__).parent
    return hashlib.sha256(b"\0".join((here / name).read_bytes() for name in OWN)).hexdigest()


# What follows runs in a worker.

_recorder: Any = None
_plan: Plan | None = None
_dump: Path


def _start(root: Path, arch: str, deployments: tuple[Deployment, ...], scratch: str) -> None:
    global _recorder, _plan, _dump
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's matter
    _dump = Path(tempfile.mkdtemp(dir=scratch))
    for dsl in ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL"):  # gemm/splitk.py is compiled by the second
        os.environ |= {f"{dsl}_ARCH": arch, f"{dsl}_KEEP_PTX": "1", f"{dsl}_KEEP_CUBIN": "1", f"{dsl}_DUMP_DIR": str(_dump)}
    from validate.kernels import driverless, recording
    from validate.paths.vllm.source import opened

    try:
        _recorder = recording.Recorder(driverless.prepare(opened(root), arch))
        names = {deployment.name: _recorder.record(deployment) for deployment in deployments}
    except Exception as error:
        print(f"{type(error).__name__}: {_line(error)}", file=sys.stderr)
        raise
    _plan = Plan(names, {name: variant.signature for name, variant in _recorder.variants.items()})


def _planned() -> Plan:
    assert _plan is not None
    return _plan


def _compiled(name: str) -> Result:
    from validate.kernels import ptx, resources

    try:
        compiled = _recorder.variants[name].compile()
        fingerprint = ptx.fingerprint(compiled.__ptx__)
        return fingerprint | resources.resources(compiled.__cubin__, str(compiled.ir_module))
    except Exception as error:  # whatever the compiler raises is the kernel's result
        return {"error": f"{type(error).__name__}: {_line(error)}"}
    finally:
        for file in _dump.iterdir():
            file.unlink()


def _line(error: Exception) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return " ".join(plain.split())[:ERROR_CHARACTERS]
