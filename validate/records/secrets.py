"""What never enters a record: the values of variables that hold a secret."""

from collections.abc import Mapping

WORDS = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "CREDENTIALS"}
SET = "set, not recorded"


def told(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables; of those whose names say that they hold a secret, that they are set."""
    return {name: SET if WORDS & set(name.upper().split("_")) else value for name, value in environment.items()}
