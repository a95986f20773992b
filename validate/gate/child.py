"""A step's process begins here: ``python -m validate.gate.child PARENT COMMAND…`` prepares itself and becomes the command.

If the gate ends, however it does, the step is interrupted and keeps its record. A shell that starts the gate in the background
has it ignore Ctrl-C, which would be inherited.
"""

import os
import signal
import sys

from validate.processes import told_when_parent_ends


def main() -> None:
    """Does not return."""
    parent, *command = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    told_when_parent_ends(signal.SIGINT)
    if os.getppid() != int(parent):  # it ended before that
        sys.exit(130)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
