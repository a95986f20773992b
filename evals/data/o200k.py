"""Counts of tokens by o200k_base, by which OpenAI's MRCR is sorted into lengths.

Its vocabulary, 3.6 MB, is a file that OpenAI publishes and tiktoken downloads and keeps. Without a network it has to be there
already: beside the data as ``o200k_base.tiktoken``, or where tiktoken keeps it (``TIKTOKEN_CACHE_DIR``).
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from validate.errors import InputError

if TYPE_CHECKING:
    from tiktoken import Encoding

NAME = "o200k_base"
# tiktoken 0.14.0, tiktoken_ext/openai_public.py and load.py: its kept file is named by the SHA-1 of the address.
ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
DIGEST = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
KEPT = hashlib.sha1(ADDRESS.encode()).hexdigest()
FILE = f"{NAME}.tiktoken"


def vocabulary(data: Path | None) -> Path | None:
    """The file with the vocabulary, if this machine has it. ``data``: the folder that the data set is given in.

    Raises:
        InputError: a file is there, and is another one. (tiktoken would delete and download it.)
    """
    kept = next(
        (os.environ[name] for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR") if name in os.environ),
        os.path.join(tempfile.gettempdir(), "data-gym-cache"),
    )
    for path in ([data / FILE] if data else []) + ([Path(kept) / KEPT] if kept else []):
        if path.is_file():
            if hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
                raise InputError(f"{path} is not the vocabulary of {NAME}: take it away, or put {ADDRESS} there")
            return path
    return None


def encoding(data: Path | None, download: bool) -> "Encoding | None":
    """The tokenizer; None where its vocabulary is not to be had. It is downloaded only if that is allowed."""
    import tiktoken

    path = vocabulary(data)
    if path is None:
        try:
            return tiktoken.get_encoding(NAME) if download else None
        except (OSError, ValueError):  # requests' errors are OSErrors; ValueError: another file than it should be
            return None
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TIKTOKEN_CACHE_DIR": folder}):
        shutil.copy(path, Path(folder) / KEPT)
        return tiktoken.get_encoding(NAME)


def lengths(encoding: "Encoding", items: Iterable[list[str]]) -> list[int]:
    """Tokens of each item's texts together, each text encoded alone and none of it read as a control token."""
    threads = os.cpu_count() or 1
    return [sum(map(len, encoding.encode_ordinary_batch(texts, num_threads=threads))) for texts in items]
