"""Whether servers answer: found out before the first step, since those that need them come after minutes of others."""

import urllib.error
import urllib.request
from collections.abc import Sequence

from validate.errors import InputError
from validate.records.secrets import address

PATIENCE = 10.0  # seconds


def answer(urls: Sequence[str]) -> None:
    """InputError names one that does not, or whose address holds a secret."""
    for url in urls:
        place = address(url)
        try:
            with urllib.request.urlopen(f"{place.geturl().rstrip('/')}/health", timeout=PATIENCE):
                pass
        except urllib.error.HTTPError:
            pass  # it answers; what it serves is looked at by the steps
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise InputError(f"{url} cannot be reached: {why}; start it, or leave it out: the steps that need it wait") from error
