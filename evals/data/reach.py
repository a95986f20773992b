"""Whether a data set's files can be had, without asking for them: they are in the hub's cache, or the hub answers."""

import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache

from evals.data.sources import Source

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # huggingface_hub.constants reads either
HUB = "https://huggingface.co"
SECONDS = 3.0  # that the hub has to answer in
ON = ("1", "ON", "YES", "TRUE")  # as huggingface_hub reads them


def out_of_reach(source: Source, environment: Mapping[str, str] = os.environ) -> str | None:
    """Why the files are not to be had here without ``--data``; None if they are. A gated set may still be refused."""
    if not source.hub:
        return f"{source.name} is not on the hub: it is {source.elsewhere}"
    if all(_cached(source, file.path) for file in source.files):
        return None
    if offline := [name for name in OFFLINE if environment.get(name, "").upper() in ON]:
        return f"{source.name} is not in the hub's cache, and {offline[0]} is set"
    where = environment.get("HF_ENDPOINT", HUB)
    return None if answers(where) else f"{source.name} is not in the hub's cache, and {where} does not answer"


@cache
def answers(address: str) -> bool:
    """Whether a server says anything, through the proxies that the environment names."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=SECONDS).close()
    except urllib.error.HTTPError:  # an answer
        return True
    except (OSError, ValueError):
        return False
    return True


def _cached(source: Source, file: str) -> bool:
    if importlib.util.find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(source.hub, file, revision=source.revision, repo_type="dataset"), str)
