"""A change of script: letters of another one than the prompt's, and bytes that are no text.

Under load vLLM answered in words of mixed languages, repeated (vllm-project/vllm 52627).
"""

import unicodedata
from collections.abc import Set

BROKEN = "\ufffd"  # what decoding makes of bytes that are no character
WINDOW = 200  # letters; a shorter answer is one window


def script(character: str) -> str:
    """The first word of a letter's name in Unicode: LATIN, CYRILLIC, CJK, ...; BROKEN for no character; "" for all else."""
    if character == BROKEN:
        return "BROKEN"
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def scripts(text: str) -> Set[str]:
    """All scripts of a text."""
    return {name for name in map(script, text) if name}


def changed(text: str, expected: Set[str], share: float) -> int | None:
    """The first character of the first window of letters of which more than ``share`` are of no ``expected`` script."""
    letters = [(place, name not in expected) for place, name in enumerate(map(script, text)) if name]
    for start in range(0, len(letters), WINDOW):
        window = letters[start : start + WINDOW]
        foreign = [place for place, other in window if other]
        if len(foreign) > share * len(window):
            return foreign[0]
    return None
