"""Published figures beside measured ones, only where both are of the same metric, stage and conditions.

claims = load()
rows(claims, measurements(comparison, "20261130T031824Z-compare"))
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from validate.errors import InputError
from validate.records.model import Record
from validate.signoff.conditions import Metric, Stage, differing
from validate.signoff.measured import Measurement
from validate.signoff.published import Claim, Published

CLAIMS = Path(__file__).resolve().parents[2] / "golden/claims.yaml"


class Measured(Record):
    """The values of one measurement, in the unit of its row. ``speed_up``: of the two."""

    record: str
    specialized: float
    default: float
    speed_up: float


class Row(Record):
    """A claim, and a measurement that stands beside it. ``why_not``: why none does, in words; empty where one does."""

    claim: str
    source: str
    date: date | Literal["unknown"]
    metric: Metric
    unit: str
    stage: Stage
    conditions: str
    published: Published
    statement: str | None
    isolates_path: bool
    note: str | None
    measured: Measured | None = None
    why_not: tuple[str, ...] = ()


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    claims: tuple[Claim, ...] = Field(min_length=1)


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML's reader would take the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def load(path: Path = CLAIMS) -> tuple[Claim, ...]:
    """The claims of a file. InputError says in one line what is wrong with it, and in which claim."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
        claims = _File.model_validate_json(json.dumps(content, default=_day), strict=True).claims
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise InputError(f"malformed claims {path}: {_said(error)}") from error
    names = [claim.id for claim in claims]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"malformed claims {path}: two are named {twice[0]}")
    return claims


def against(claim: Claim, measurement: Measurement) -> list[str]:
    """Why a measurement must not stand beside a claim, in words, all reasons; empty where it may."""
    return list(_against(claim, measurement))


def rows(claims: Iterable[Claim], measurements: Sequence[Measurement]) -> list[Row]:
    """One row for each measurement that stands beside a claim, one for a claim beside which none does. Metrics stay together.

    ``why_not`` then holds all that parts the claim from the measurement of its metric and stage with the fewest differences.
    """
    found = [row for claim in claims for row in _rows(claim, measurements)]
    order = list(Metric)
    return sorted(found, key=lambda row: order.index(row.metric))


def _rows(claim: Claim, measurements: Sequence[Measurement]) -> Iterator[Row]:
    row = Row(
        claim=claim.id,
        source=claim.source.name,
        date=claim.source.date,
        metric=claim.metric,
        unit=claim.unit,
        stage=claim.stage,
        conditions=claim.conditions.words,
        published=claim.values,
        statement=claim.statement,
        isolates_path=claim.isolates_path,
        note=claim.note,
    )
    beside = [m for m in measurements if not against(claim, m)]
    for m in beside:
        values = Measured(record=m.record, specialized=m.specialized, default=m.default, speed_up=m.speed_up)
        yield row.model_copy(update={"measured": values})
    if not beside:
        yield row.model_copy(update={"why_not": tuple(_why_not(claim, measurements))})


def _why_not(claim: Claim, measurements: Sequence[Measurement]) -> Iterator[str]:
    alike = [m for m in measurements if m.metric is claim.metric and m.stage is claim.stage]
    if not alike:
        yield from _no_pair(claim)
        yield f"nothing measured: no {claim.metric}, {claim.stage}"
        return
    nearest = min(alike, key=lambda m: len(against(claim, m)))
    yield f"nearest: {nearest.record}"
    yield from against(claim, nearest)


def _no_pair(claim: Claim) -> Iterator[str]:
    if not claim.isolates_path:
        yield f"the published figure does not isolate the path: {claim.reason}"


def _against(claim: Claim, measurement: Measurement) -> Iterator[str]:
    if claim.metric is not measurement.metric:
        yield f"{claim.metric} against {measurement.metric}"
    if claim.stage is not measurement.stage:
        yield f"{claim.stage} against {measurement.stage}"
    yield from _no_pair(claim)
    if measurement.emulated:
        yield "emulated: a stand-in ran, not vLLM's kernels on GB300; its times are of no GPU"
    yield from measurement.objections
    yield from differing(claim.conditions, measurement.conditions)


def _day(value: Any) -> str:
    """YAML's dates, as JSON has none."""
    if type(value) is date:
        return value.isoformat()
    raise TypeError(f"{value!r} is no value of a claim")


def _said(error: Exception) -> str:
    """In one line."""
    if not isinstance(error, ValidationError):
        return " ".join(str(error).split())
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg'].removeprefix('Value error, ')}"
