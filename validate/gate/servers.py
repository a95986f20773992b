"""Whether servers answer: found out before the first step, since those that need them come after minutes of others."""

import urllib.error
import urllib.request
from collections.abc import Sequence

from validate.errors import InputError

PATIENCE = 10.0  # seconds


def answer(urls: Sequence[str]) -> None:
    """InputError names one that does not."""
    for url in urls:
        try:
            with urllib.request.urlopen(f"{url if '//' in url else f'http://{url}'}/health", timeout=PATIENCE):
                pass
        except urllib.error.HTTPError:
            pass  # it answers; what it serves is looked at by the steps
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise InputError(f"{url} cannot be reached: {why}; start it, or leave it out: the steps that need it wait") from error
