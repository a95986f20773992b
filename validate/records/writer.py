"""One writer of a run's folder at a time; what it leaves is sealed."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from validate.errors import InputError
from validate.records.folder import unwritable
from validate.records.seal import seal, unseal

LOCK = ".lock"


@contextlib.contextmanager
def alone(there: Path) -> Iterator[int]:
    """As ``locked``; however it ends, short of being killed, the folder is sealed then."""
    with locked(there) as lock:
        try:
            yield lock
        finally:
            seal(there)


@contextlib.contextmanager
def locked(there: Path) -> Iterator[int]:
    """No other process writes to the folder meanwhile. InputError if one does; the system lets go when a process ends.

    Gives the file descriptor of the lock: a process that inherits it holds the lock, too. The folder is not sealed from now on. A
    file is locked, not the folder: NFS locks nothing that is open for reading only.
    """
    try:
        file = (there / LOCK).open("a")
    except OSError as error:
        raise unwritable(there / LOCK, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process writes to {there}: wait until it ends, or stop it") from None
        unseal(there)
        yield file.fileno()
