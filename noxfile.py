"""Sessions. Each makes its own environment; with K3_PARITY_ENV=current they run in the interpreter that is there.

Arguments after ``--`` reach the tool: ``nox -s numerics -- --profile cpu -k kda -n 2 --seeds 5``.
"""

import os
import signal
import subprocess
import sys

import nox

CURRENT = os.environ.get("K3_PARITY_ENV") == "current"
nox.options.default_venv_backend = "none" if CURRENT else "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["numerics"]


def setup(session: nox.Session, extras: str = "") -> None:
    if not CURRENT:
        session.install("-q", "-e", f".{extras}")


def tool(session: nox.Session, *command: str) -> None:
    """Runs ``python -m command`` and ends nox with its exit code: nox would make 1 of every code but 0."""
    python = "python" if CURRENT else os.path.join(session.bin, "python")
    # Ctrl-C reaches the tool, too, which saves what it has: wait for it. (SIG_IGN would be inherited.)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([python, "-m", *command]).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        sys.exit(code)


@nox.session
def numerics(session: nox.Session) -> None:
    setup(session)
    tool(session, "validate", "numerics", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    setup(session)
    tool(session, "validate", "bench", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    setup(session, "[test]")
    tool(session, "pytest", "-n", "auto", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    setup(session, "[lint]")
    tool(session, "ruff", "check", ".")
    tool(session, "ruff", "format", "--check", ".")
    tool(session, "mypy")
