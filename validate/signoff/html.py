"""``report.html``: one file that needs no network. Whatever a record says is text in it, never markup."""

import base64
import hashlib
from importlib import resources

import jinja2
from markupsafe import Markup

from validate.signoff import plots
from validate.signoff.evidence import LAYERS, Cell, Plot
from validate.signoff.report import PROVENANCE, SCREEN, Report, identity, not_run, provenance, published, screen
from validate.signoff.text import visible
from validate.verdict import Verdict

LONGEST = 2000  # characters of one text: what is longer is cut, and says so
MARKS = {Verdict.PASS: "✓", Verdict.FAIL: "✗", Verdict.INCONCLUSIVE: "?", Verdict.INVALID: "!"}  # not by colour alone
FILTERED = 12  # rows from which on a table can be filtered


def render(report: Report) -> str:
    """The page."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"shown": shown, "mark": mark}
    script = _file("page.js")
    return environment.from_string(_file("page.html.j2")).render(
        report=report,
        layers=[(layer, report.judged(layer), report.of(layer)) for layer in LAYERS],
        identity=identity(report),
        screen=screen(report),
        screen_header=SCREEN,
        not_run=not_run(report),
        published=published(report),
        provenance=provenance(report.evidence),
        provenance_header=PROVENANCE,
        style=Markup(_file("page.css")),
        script=Markup(script),
        script_hash=_hash(script),
        drawn=_drawn,
        filtered=FILTERED,
    )


def shown(cell: Cell | None) -> str:
    """A cell as text: without characters that change what is around them, and not too long."""
    if cell is None:
        return ""
    return visible(f"{cell:g}" if isinstance(cell, float) else str(cell), LONGEST)


def mark(verdict: Verdict | str | None) -> str:
    """A verdict's sign and word; of anything else the word."""
    known = next((one for one in Verdict if one == verdict), None)
    return f"{MARKS[known]} {known.value}" if known else str(verdict or "not run")


def _drawn(plot: Plot, name: str) -> Markup:  # matplotlib escapes the texts
    try:
        return Markup(plots.svg(plot, name))
    except (IndexError, ValueError):  # matplotlib's, of a record without values, or with ones that are not finite
        return Markup("<p>Its values cannot be drawn; they are in report.json.</p>")


def _file(name: str) -> str:
    return resources.files("validate.signoff").joinpath("page", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
