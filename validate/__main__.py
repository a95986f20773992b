"""``python -m validate``."""

from validate.cli import main

if __name__ == "__main__":
    main()
