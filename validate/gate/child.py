"""A step's process: ``python -m validate.gate.child PARENT SIGNAL COMMAND…`` runs it, and sends it the signal if the gate ends.

However the gate ends, the step is interrupted then and keeps its record. Of a parent that was killed Linux tells a child once for
each of its threads, and a step that is interrupted twice loses what it was writing: hence this process between, which tells it
once. A shell that starts the gate in the background has it ignore Ctrl-C, which would be inherited; a handled signal is not.
"""

import os
import signal
import subprocess
import sys
from types import FrameType

from validate.processes import told_when_parent_ends


def main() -> None:
    """Ends as the command does, by its signal or with its exit code."""
    parent, by, *command = sys.argv[1:]
    told: set[int] = set()

    def tell(number: int, _: FrameType | None) -> None:
        if number not in told:
            told.add(number)
            process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    told_when_parent_ends(signal.Signals(int(by)))
    if os.getppid() != int(parent):  # it ended before that
        sys.exit(130)
    process = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)
    code = process.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
