"""A published figure: who said it, what it is of, under which conditions."""

import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from validate.signoff.conditions import NO, UNITS, Conditions, Metric, Stage, Text, lower_is_faster, speed_up


def _digits(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return Decimal(value)
    if isinstance(value, Decimal):
        return value
    raise ValueError("write the figure in quotes as it was published: its last digit says how it was rounded")


Figure = Annotated[Decimal, BeforeValidator(_digits), Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Source(_Strict):
    """Where it was published. ``date``: of the publication."""

    name: Text
    date: date | Literal["unknown"]


class Published(_Strict):
    """Figures as they were published, digit by digit, of one source.

    ``specialized``, ``default``: of the two paths. ``figure``: one that the source does not tie to either path. ``ratio``: how
    many times faster the source says the first is. None: not published.
    """

    specialized: Figure | None = None
    default: Figure | None = None
    ratio: Figure | None = None
    figure: Figure | None = None

    @model_validator(mode="after")
    def _one(self) -> "Published":
        if self.figure is not None and (self.specialized or self.default):
            raise ValueError("a figure is either of a path or of none")
        if self.default is not None and self.specialized is None:
            raise ValueError("a default figure alone is of no pair")
        return self


class Compared(_Strict):
    """What the side that is compared with has otherwise, beside the path."""

    gpus: int | None = None
    build: Text | None = None


class Claim(_Strict):
    """One published statement. ``statement``: what it says where it gives no figures.

    ``isolates_path``: both sides are established to differ in the path alone; ``reason`` says why not. ``compared``: in what else
    they differ. ``note``: what a reader must know to read it.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    source: Source
    metric: Metric
    unit: Text
    stage: Stage
    values: Published = Published()
    statement: Text | None = None
    isolates_path: bool
    reason: Text | None = None
    compared: Compared | None = None
    conditions: Conditions
    note: Text | None = None

    @model_validator(mode="after")
    def _sound(self) -> "Claim":
        if self.unit != UNITS[self.metric]:
            raise ValueError(f"unit: {self.metric} is in {UNITS[self.metric]}, not {self.unit}")
        if (self.values == Published()) == (self.statement is None):
            raise ValueError("values or a statement: one of the two is wanted")
        if self.isolates_path != (self.reason is None):
            raise ValueError("reason: wanted where isolates_path is false, and nowhere else")
        if self.isolates_path and (self.compared or self.values.figure is not None):
            raise ValueError("isolates_path: the two sides differ in more than the path")
        if self.conditions.speculation == NO and self.metric is Metric.INTER_TOKEN_LATENCY and self.stage is Stage.DECODE_ONLY:
            raise ValueError(f"metric: without speculation and prefill that is the {Metric.STEP_TIME}")
        if not _rounds_to(self.metric, self.values):
            pair = f"{self.values.specialized} and {self.values.default}"
            raise ValueError(
                f"values: the ratio of {pair} is {self.speed_up:.4g}, not {self.values.ratio}: pairs of one source only"
            )
        return self

    @property
    def speed_up(self) -> float | None:
        """Of this claim's own pair, unrounded; None where it has no pair: a ratio without one is not made into one."""
        v = self.values
        return speed_up(self.metric, float(v.specialized), float(v.default)) if v.specialized and v.default else None


def _half(figure: Decimal) -> float:
    """Half a unit of the last published digit: the figure was rounded by no more."""
    return 0.5 * 10.0 ** int(figure.as_tuple().exponent)


def _rounds_to(metric: Metric, v: Published) -> bool:
    """Whether values that round to the pair can have a ratio that rounds to the published one. True where one is missing."""
    if not (v.specialized and v.default and v.ratio):
        return True
    above, below = (v.default, v.specialized) if lower_is_faster(metric) else (v.specialized, v.default)
    least = (float(above) - _half(above)) / (float(below) + _half(below))
    most = (float(above) + _half(above)) / (float(below) - _half(below))
    return least <= float(v.ratio) + _half(v.ratio) and float(v.ratio) - _half(v.ratio) <= most
