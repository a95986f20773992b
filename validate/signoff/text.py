"""Anybody's text, made fit to be shown: a model's output, a name in a record, a person's file."""

import unicodedata

# Control and format characters (Unicode's categories), of which bidirectional marks reorder what stands around them.
HIDDEN = {"Cc", "Cf", "Co", "Cs"}


def visible(text: str, longest: int) -> str:
    """With its hidden characters written out, and cut after so many, which is said."""
    shown = "".join(f"[U+{ord(c):04X}]" if unicodedata.category(c) in HIDDEN and c not in "\n\t" else c for c in text[:longest])
    return shown + (f" … ({len(text) - longest:,} more characters)" if len(text) > longest else "")
