"""Plots as SVG that a page can hold: their colours are the page's, so that they follow light and dark."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from validate.signoff.evidence import Boxes, Intervals, Line, Lines, Plot
from validate.signoff.text import visible

# Colours that stand for the page's variables (page.css), and are replaced by them: matplotlib knows no variables.
INK, GRID, BAD = "#010203", "#040506", "#070809"
SERIES = ("#0a0b0c", "#0d0e0f", "#101112", "#131415", "#161718", "#191a1b", "#1c1d1e", "#1f2021")
VARIABLES = {INK: "--ink", GRID: "--line", BAD: "--bad"} | {colour: f"--series-{n}" for n, colour in enumerate(SERIES, 1)}
LONGEST = 32  # characters of a label: more would leave the drawing no room
DASHES: Sequence[Any] = ("-", "--", ":", "-.")  # so that lines differ without colour, too
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and grows with the page's
    "svg.hashsalt": "k3-parity",  # the same plot, the same file
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "text.parse_math": False,  # names are anybody's
}


def svg(plot: Plot, name: str) -> str:
    """One plot, 7 inches wide, scaled by the page. ``name``: unique in the page, for what the drawing refers to within itself."""
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(7, _height(plot)), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        if isinstance(plot, Boxes):
            _boxes(axes, plot)
        elif isinstance(plot, Lines):
            _lines(axes, plot)
        else:
            _intervals(axes, plot)
        made = io.StringIO()
        figure.savefig(made, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(made.getvalue(), name)


def _height(plot: Plot) -> float:
    if isinstance(plot, Lines):
        return 3.5
    rows = len({box.label for box in plot.boxes}) if isinstance(plot, Boxes) else len(plot.intervals)
    return 1.2 + 0.4 * rows


def _boxes(axes: Axes, plot: Boxes) -> None:
    labels = list(dict.fromkeys(box.label for box in plot.boxes))
    series = list(dict.fromkeys(box.series for box in plot.boxes))
    width = 0.7 / len(series)
    for n, name in enumerate(series):
        colour = SERIES[n % len(SERIES)]
        for box in (box for box in plot.boxes if box.series == name):
            least, low, middle, high, largest = box.values
            y = labels.index(box.label) + (n - (len(series) - 1) / 2) * width
            axes.plot([least, largest], [y, y], color=colour, linewidth=1)
            axes.barh(y, high - low, width * 0.8, low, color=colour, alpha=0.45, edgecolor=colour)
            axes.plot([middle], [y], marker="|", color=colour, markersize=9)
        axes.plot([], [], color=colour, linewidth=5, label=_label(name))
    axes.axvline(plot.limit, color=BAD, linewidth=1.5)
    axes.set_yticks(range(len(labels)), map(_label, labels))
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(plot.axis)
    _legend(axes)


def _label(text: str) -> str:
    return visible(text, LONGEST).replace("\n", " ")


def _plain(value: float, _: float) -> str:
    """As people write it: matplotlib's own are formulas."""
    return f"{value:g}"


def _lines(axes: Axes, plot: Lines) -> None:
    for n, line in enumerate(plot.lines):
        style = DASHES[n // 2 % len(DASHES)]
        axes.plot(
            line.x,
            line.y,
            color=SERIES[n % len(SERIES)],
            linestyle=style,
            label=_label(line.name),
            marker="." if _few(line) else None,
        )
        if line.low:
            axes.fill_between(line.x, line.low, line.high, color=SERIES[n % len(SERIES)], alpha=0.2, linewidth=0)
    axes.set_xscale("symlog", base=2, linthresh=1)
    largest = max(line.x[-1] for line in plot.lines)
    axes.set_xlim(0, largest)
    axes.set_xticks([0, *(4**n for n in range(12) if 4**n <= largest)], minor=False)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(_plain)
    heights = [value for line in plot.lines for value in line.y]
    if min(heights) > 0 and max(heights) > 10 * min(heights):  # within less than a decade a logarithmic axis has no number
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain)
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(plot.x_axis)
    axes.set_ylabel(plot.y_axis)
    _legend(axes)


def _few(line: Line) -> bool:
    return len(line.x) < 40


def _intervals(axes: Axes, plot: Intervals) -> None:
    for y, one in enumerate(plot.intervals):
        axes.plot([one.low, one.high], [y, y], color=SERIES[0], linewidth=2)
        axes.plot([one.value], [y], marker="o", color=SERIES[0])
        axes.plot([one.margin, one.margin], [y - 0.35, y + 0.35], color=BAD, linewidth=2)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(plot.intervals)), [_label(one.label) for one in plot.intervals])
    axes.set_ylim(len(plot.intervals) - 0.5, -0.5)
    axes.set_xlabel(plot.axis)


def _legend(axes: Axes) -> None:
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False)


def _inline(drawn: str, name: str) -> str:
    """Without the file's head, sized by the page, with its colours."""
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(
        r'<svg [^>]*viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" role="presentation" focusable="false">', drawn, count=1
    )
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)
    drawn = re.sub(r'(id="|href="#|url\(#)', rf"\1{name}-", drawn)
    for colour, variable in VARIABLES.items():
        drawn = drawn.replace(colour, f"var({variable})")
    return drawn
