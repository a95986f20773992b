"""What never enters a record: the values of variables that hold a secret."""

from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

from validate.errors import InputError

WORDS = {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "CREDENTIAL", "CREDENTIALS", "AUTH"}
SET = "set, not recorded"


def told(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables; of those whose names say that they hold a secret, that they are set."""
    return {name: SET if held(name) else value for name, value in environment.items()}


def held(name: str) -> bool:
    """Whether a variable's name says that it holds a secret."""
    return bool(WORDS & set(name.upper().split("_")))


def address(url: str) -> SplitResult:
    """A server's, http where it names no scheme. InputError for one that holds a name or password, or is none."""
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        named, host = parts.username or parts.password, parts.hostname
    except ValueError as error:
        raise InputError(f"{url}: an address such as http://host:8000 is wanted") from error
    if named:
        raise InputError(f"the address of {host} holds a name or password, and it is recorded: give it without")
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(f"{url}: an address such as http://host:8000 is wanted")
    return parts


def unrecorded(words: Iterable[str], option: str) -> None:
    """InputError for a word of a command, which is recorded, that sets a secret."""
    for word in words:
        name, assigned, _ = word.lstrip("-").partition("=")
        if assigned and held(name):
            raise InputError(f"{option}: the value of {name} would be recorded: export the variable instead")
