r"""The content of ``\boxed{...}``, braces counted: a pattern that ends at the first brace reads ``\boxed{\text{70}}`` wrongly."""

import re

BOX = "\\boxed{"
# Commands that change how their argument looks and not what it says.
STYLE = r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:bf|it|rm|sf|tt)|boldsymbol|mbox|bf|it|rm|displaystyle|quad)(?![A-Za-z])"
# A run of backslashes, which may begin a box, or a brace.
_TOKEN = re.compile(r"\\++((?:boxed|fbox)\s*+\{)?+|[{}]")


def last(text: str) -> str | None:
    r"""What is in the last ``\boxed{...}`` or ``\fbox{...}`` whose braces balance, None if there is none.

    Escaped braces are text. A box with nothing in it declares nothing (``put it into \boxed{}``).
    """
    opened: list[int | None] = []  # of each open brace: where a box's content begins, None if it is no box's
    found, escaped = None, -1
    for token in _TOKEN.finditer(text):
        if token[1]:
            opened.append(token.end())
        elif token[0][0] == "\\":
            escaped = token.end() if len(token[0]) % 2 else -1
        elif token.start() == escaped:
            continue
        elif token[0] == "{":
            opened.append(None)
        elif opened and (begin := opened.pop()) is not None and text[begin : begin + 1] != "}":
            found = max(found or (0, 0), (begin, token.start()))
    return text[found[0] : found[1]] if found else None
