r"""The content of ``\boxed{...}``, braces counted: a pattern that ends at the first brace reads ``\boxed{\text{70}}`` wrongly."""

BOX = "\\boxed{"


def last(text: str) -> str | None:
    r"""What is in the last ``\boxed{...}`` whose braces balance, None if there is none. Escaped braces are text."""
    start = text.rfind(BOX)
    while start >= 0:
        begin = start + len(BOX)
        if (end := _end(text, begin)) is not None:
            return text[begin:end]
        start = text.rfind(BOX, 0, start)
    return None


def _end(text: str, begin: int) -> int | None:
    """Where the brace that is open at ``begin`` closes."""
    depth, place = 1, begin
    while place < len(text):
        if text[place] == "\\":
            place += 2
            continue
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place
        place += 1
    return None
