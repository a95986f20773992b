"""A text that says little: a window of it that zlib makes far smaller than sound text.

Never the whole text. Ordinary text of GSM8K has a mean ratio of 2.12 at 2,000 characters, 2.52 at 20,000 and 2.75 at 100,000,
so that a bound such as Whisper's 2.4 would condemn any long answer; a loop has 35.7 at 2,000. A text that is half a loop has
4.67 as a whole and 35.7 in its last 2,000. Windows overlap by half, so that a loop of ``WINDOW`` characters fills at least half
of one.
"""

import zlib

WINDOW = 2000  # characters
LEAST = 1000  # of a text that is one window; of a shorter one zlib's tables decide


def repetitive(text: str, ratio: float) -> int | None:
    """The first character of the first window whose bytes shrink by more than ``ratio``; None where there is none."""
    if len(text) < LEAST:
        return None
    for start in range(0, max(len(text) - WINDOW, 0) + 1, WINDOW // 2):
        if shrinks(text[start : start + WINDOW]) > ratio:
            return start
    return None


def shrinks(text: str) -> float:
    """Bytes before and after compression, their ratio."""
    raw = text.encode(errors="replace")
    return len(raw) / len(zlib.compress(raw))
