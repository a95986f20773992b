"""What the doctor prints: one line a layer, and below it what is lacking."""

import sys
from collections.abc import Iterable, Iterator

from validate.doctor import layers as known
from validate.doctor.layers import Layer
from validate.records import provenance


def machine(layers: list[Layer]) -> Iterator[str]:
    """The machine, its layers, and how many of those that any machine is to run can run."""
    here = provenance.machine()
    gpus = ", ".join(here.gpus) or "no GPU"
    yield f"{here.system}; {here.cpu}, {here.cores} cores, {here.memory_gib} GiB; {gpus}"
    yield f"Python {sys.version.split()[0]} at {sys.executable}"
    yield known.nox()
    yield ""
    yield from rows(layers)
    yield ""
    own = [layer for layer in layers if layer.cpu]
    through_nox = sum(layer.by_nox for layer in own)
    can = sum(layer.can_run for layer in own) + through_nox
    made = f", {through_nox} of them in an environment that nox makes" if through_nox else ""
    yield f"{can} of {len(own)} layers that take no GPU can run here{made}"


def rows(layers: Iterable[Layer]) -> Iterator[str]:
    """``yes``, ``nox`` or ``no``, the layer, its command; then why not and what to do, and what else to know."""
    layers = list(layers)
    width = max(len(layer.name) for layer in layers)
    for layer in layers:
        yield f"{'yes' if layer.can_run else 'nox' if layer.by_nox else 'no ':3} {layer.name:{width}}  {layer.command}"
        if layer.by_nox:
            yield f"      its session installs what is not here: {'; '.join(lack.why for lack in layer.lacks)}"
            continue
        for lack in layer.lacks:
            yield f"      {lack.why}" + (f": {lack.do}" if lack.do else "")
        if layer.can_run:
            yield from (f"      {note}" for note in layer.notes)
