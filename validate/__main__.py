"""``python -m validate``."""

import sys

PYTHON = (3, 11)

if sys.version_info[:2] < PYTHON:  # before anything is imported that an older one cannot read
    sys.stderr.write("error: Python 3.11 or later is wanted, and this is " + sys.version.split()[0] + "\n")
    sys.exit(3)

if __name__ == "__main__":
    try:
        from validate.cli import main
    except ModuleNotFoundError as error:
        sys.stderr.write(f"error: {error.name} is not installed: pip install -e . in the project's folder\n")
        sys.exit(3)
    main()
