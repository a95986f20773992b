"""What the recorder asks of an engine, whether it runs in this process or behind a server."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from validate.equivalence.identity import Identity
from validate.equivalence.order import COMPANION, Order
from validate.equivalence.scenes import Facts, Request
from validate.records.arm import Times, Top, Transcript
from validate.standin.turns import answers

CORRUPTED, PREEMPTIONS, CACHE = "vllm:corrupted_requests_total", "vllm:num_preemptions_total", "vllm:cache_config_info"


class Lost(Exception):
    """The engine gave no answer in mid-scene: it died, it is overloaded, or it is too slow. What had ended is kept."""


@dataclass
class Answer:
    """One request as its tokens come in. Stamps are seconds of one clock."""

    request: Request
    arrived: float = field(default_factory=time.perf_counter)
    stamps: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[Top] = field(default_factory=list)
    finish: str | None = None
    cached: int = 0
    preemptions: int = 0
    drafted: int = 0
    accepted: int = 0
    prompt: tuple[int, ...] = ()  # ids that the engine made of a text
    texts: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[tuple[int, int], ...]:
        """What is not dictated, [start, end) in tokens."""
        return tuple(answers(self.tokens, self.request.turns, self.request.end))

    def add(self, stamp: float, tokens: Sequence[int], chosen: Sequence[float], top: Sequence[Top]) -> None:
        """One output of the engine: a token, or several of a verified draft."""
        if tokens:
            self.stamps.append(stamp)
        self.tokens += tokens
        self.logprobs += chosen
        self.top += top

    def transcript(self, scene: str) -> Transcript:
        """The record of a request that has ended. ``times.intervals`` lie between outputs, each of one or more tokens."""
        intervals = tuple(after - before for before, after in zip(self.stamps, self.stamps[1:], strict=False))
        times = Times(first_token=self.stamps[0] - self.arrived, intervals=intervals) if self.stamps else None
        return Transcript(
            scene=scene,
            request=self.request.name,
            kind=self.request.kind,
            prompt=self.prompt or self.request.prompt,
            seed=self.request.seed,
            tokens=tuple(self.tokens),
            logprobs=tuple(self.logprobs),
            top=tuple(self.top),
            finish=self.finish,
            cached=self.cached,
            preemptions=self.preemptions,
            drafted=self.drafted,
            accepted=self.accepted,
            times=times,
            own=self.own if self.request.worded else (),
            texts=self.texts if self.own else (),  # a server gives an output of nothing a text, too
            expects=self.request.expects,
        )


Ended = Callable[[Answer], None]


class Engine(Protocol):
    """One engine, which runs one scene at a time. ``serves``: which model a server says it has."""

    serves: str | None

    def identity(self) -> Identity:
        """Which engine it is, as its workers say."""
        ...

    def facts(self) -> Facts:
        """What scenes are made for."""
        ...

    def fresh(self) -> None:
        """Empties the prefix cache and begins to count steps anew."""
        ...

    def play(self, order: Order, ended: Ended) -> None:
        """Runs the requests of a scene; calls ``ended`` with each that has ended. Lost if the engine is."""
        ...

    def steps(self) -> list[Mapping[str, Any]]:
        """``k3_parity_steps`` of every rank, since ``fresh``."""
        ...

    def metrics(self) -> str:
        """The engine's counters, in Prometheus' text format."""
        ...

    def version(self) -> str:
        """The version of vLLM."""
        ...

    def wait(self) -> bool:
        """After it was lost: waits a while, and says whether it answers again."""
        ...

    def close(self) -> None:
        """Gives the engine's memory back."""
        ...


def metric(text: str, name: str) -> float | None:
    """A counter's value over all engines and labels; None where there is none of that name."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, found)) if found else None


def block_size(text: str) -> int | None:
    """Tokens a cache block, which of hybrid models only the engine knows."""
    found = re.search(rf'^{CACHE}\{{.*?\bblock_size="(\d+)"', text, re.MULTILINE)
    return int(found[1]) if found else None


def ending(reason: str, detail: object) -> str:
    """How a request ended: ``length``, ``eos``, or ``stop`` and by which id or string."""
    if reason != "stop":
        return reason
    return "eos" if detail is None else f"stop {detail!r}"


def best(entries: Iterable[tuple[int, float]], k: int) -> Top:
    """The ``k`` best of tokens and their log-probabilities, equal ones by id."""
    first = sorted(entries, key=lambda entry: (-entry[1], entry[0]))[:k]
    return Top(ids=tuple(token for token, _ in first), logprobs=tuple(value for _, value in first))


def recorded(request: Request) -> bool:
    """Whether it is part of the record: companions are not."""
    return not request.name.startswith(COMPANION)
