"""What protocols share: kernels that begin and end, and all-reduces that are not looked into."""

from collections.abc import Iterable

from validate.races.system import System, Thread


class Kernels:
    """Beginnings and ends of kernels, by name. Each is a cell that is set once.

    A kernel ``ends`` when all that its thread has stored is visible; ``after`` that is griddepcontrol.wait. It ``releases`` its
    dependents (launch_dependents) whatever of its own is visible; their threads begin when they are ``released``.
    """

    def __init__(self, system: System) -> None:
        self._system = system

    def ends(self, thread: Thread, kernel: str) -> None:
        """The thread's part of it is over."""
        thread.store(self._cell(f"end of {kernel}"), "set", release=True)

    def after(self, thread: Thread, *kernels: str) -> None:
        """The thread goes on once they are over."""
        for kernel in kernels:
            thread.receive(self._cell(f"end of {kernel}"), "set")

    def releases(self, thread: Thread, kernel: str) -> None:
        """From here on it may begin."""
        thread.store(self._cell(f"start of {kernel}"), "set")

    def released(self, thread: Thread, kernel: str) -> None:
        """It begins, which the thread is a part of."""
        thread.receive(self._cell(f"start of {kernel}"), "set")

    def _cell(self, name: str) -> str:
        return name if name in self._system.place else self._system.mailbox(name, end="any")


def all_reduce(thread: Thread, what: str, rank: int, ranks: Iterable[int]) -> None:
    """Between one thread of each rank: sends to all others, and goes on once all have sent. Its cells are used once."""
    others = [other for other in ranks if other != rank]
    for other in others:
        thread.store(_sent(thread.system, what, rank, other), "sent")
    for other in others:
        thread.receive(_sent(thread.system, what, other, rank), "sent")


def _sent(system: System, what: str, source: int, target: int) -> str:
    name = f"{what} from {source} to {target}"
    return name if name in system.place else system.mailbox(name, end="any")
