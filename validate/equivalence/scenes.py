"""Scenes: requests and the batches that they form. Made from an arm file, a seed and what the engine says of itself."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from validate.equivalence import tasks
from validate.equivalence.prompts import Prompts
from validate.errors import InputError
from validate.records.arm import Kind

Count = Annotated[int, Field(ge=1)]
WATCHED = "watched-"  # begins the names of requests that are repeated in changing company


@dataclass(frozen=True)
class Facts:
    """Of the engine: tokens a cache block, tokens a step at most, tokens a request at most, requests a step at most."""

    block: int
    chunk: int
    longest: int
    running: int


@dataclass(frozen=True)
class Request:
    """``wave``: it is submitted when all requests of earlier waves have ended, and then when the scene's first request of its
    wave has decoded ``after`` tokens. ``forced`` are the tokens that it must decode.

    ``text``: a message, of which the engine's own tokenizer makes the prompt. ``turns``: ids that are dictated within the output,
    one after each id ``end`` (``standin/turns.py``). ``worded``: the text of its output is recorded, too. ``expects``: what
    the right answer holds.
    """

    name: str
    prompt: tuple[int, ...]
    tokens: int
    kind: Kind = "greedy"
    wave: int = 0
    after: int = 0
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    ignore_eos: bool = True
    forced: tuple[int, ...] = ()
    temperature: float = field(default=0.0, repr=False)
    seed: int | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)
    turns: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    end: int = field(default=-1, repr=False)
    worded: bool = field(default=False, repr=False)
    expects: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Scene:
    """``composed``: its requests are meant to run together, so an incomplete scene is run again as a whole.

    ``preempt_after``: all running requests are preempted when the first one has decoded so many tokens. ``proves``: what must be
    seen in the engine, or the scene is void: every request after the first wave found cached tokens, or some request was
    preempted. ``of``: the scene whose greedy tokens are forced.
    """

    name: str
    requests: tuple[Request, ...]
    composed: bool = True
    decode_only: bool = False
    preempt_after: int | None = None
    proves: Literal["cached", "preempted"] | None = None
    of: str | None = None

    @property
    def forced(self) -> bool:
        """Whether its requests decode tokens that are given."""
        return all(request.kind == "forced" for request in self.requests)


class _Set(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    tokens: Count = Field(default=32, description="decoded by each request")


class Alone(_Set):
    """One request at a time, of given prompt lengths."""

    kind: Literal["alone"]
    lengths: tuple[Count, ...] = Field(min_length=1)

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene that is resumed by request."""
        yield _alone(self.name, {f"length-{n}": n for n in self.lengths}, self.tokens, prompts)


class Boundaries(_Set):
    """One request at a time, whose prompt ends one token before a multiple of a block or a chunk, on it, or one after.

    After a chunk's multiple comes a last chunk of one token.
    """

    kind: Literal["boundaries"]
    unit: Literal["block", "chunk"]
    multiples: tuple[Count, ...] = Field(min_length=1)

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene that is resumed by request; lengths that the engine does not take are an InputError."""
        size = facts.block if self.unit == "block" else facts.chunk
        offsets = {"minus-1": -1, "exact": 0, "plus-1": 1}
        lengths = {f"{k}-{self.unit}s-{word}": k * size + offset for k in self.multiples for word, offset in offsets.items()}
        yield _alone(self.name, {name: n for name, n in lengths.items() if n > 0}, self.tokens, prompts)


class Together(_Set):
    """For each size one scene of so many requests, all submitted at once, of prompt lengths between two."""

    kind: Literal["together"]
    sizes: tuple[Count, ...] = Field(min_length=1)
    lengths: tuple[Count, Count]
    decode_only: bool = False

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """Scenes ``name-size``."""
        for size in self.sizes:
            name = f"{self.name}-{size}"
            requests = _many(name, size, self.lengths, self.tokens, prompts)
            yield Scene(name, requests, decode_only=self.decode_only)


class Arrivals(_Set):
    """``first`` requests decode while others arrive, one whenever ``every`` more tokens are decoded: mixed batches."""

    kind: Literal["arrivals"]
    first: Count
    later: Count
    every: Count
    lengths: tuple[Count, Count]

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        requests = _many(self.name, self.first + self.later, self.lengths, self.tokens, prompts)
        late = [replace(r, after=(n + 1) * self.every) for n, r in enumerate(requests[self.first :])]
        yield Scene(self.name, (*requests[: self.first], *late))


class Chunked(_Set):
    """Prompts of several chunks arrive while a short request decodes; the last chunk of the first has one token."""

    kind: Literal["chunked"]
    requests: Count
    chunks: Count

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        short = Request("short", prompts(f"{self.name}/short", 8), self.tokens)
        names = [f"long-{n}" for n in range(self.requests)]
        sizes = [self.chunks * facts.chunk + 1 + n * facts.chunk // (2 * self.requests) for n in range(self.requests)]
        long = [
            Request(name, prompts(f"{self.name}/{name}", size), self.tokens, after=2)
            for name, size in zip(names, sizes, strict=True)
        ]
        yield Scene(self.name, (short, *long))


class Prefix(_Set):
    """A request with a cold cache, then others that begin with the same ``blocks`` blocks, one of them with the same prompt."""

    kind: Literal["prefix"]
    requests: Count
    blocks: Count

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene, which proves that blocks were found in the cache."""
        shared = prompts(f"{self.name}/shared", self.blocks * facts.block)
        tail = max(1, facts.block // 2)
        cold = Request("cold", shared + prompts(f"{self.name}/cold", tail), self.tokens)
        same = replace(cold, name="same", wave=1)
        warm = [
            Request(f"warm-{n}", shared + prompts(f"{self.name}/{n}", 1 + n % tail), self.tokens, wave=1)
            for n in range(self.requests)
        ]
        yield Scene(self.name, (cold, same, *warm), proves="cached")


class Preemption(_Set):
    """Requests that are preempted: because the cache is too small for them, or, with ``after``, all when so many tokens are
    decoded.
    """

    kind: Literal["preemption"]
    requests: Count
    lengths: tuple[Count, Count]
    after: Count | None = None

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene, which proves that requests were preempted."""
        requests = _many(self.name, self.requests, self.lengths, self.tokens, prompts)
        yield Scene(self.name, requests, preempt_after=self.after, proves="preempted")


class Slots(_Set):
    """``rounds`` times as many requests as run at once, of 1 to ``tokens`` tokens: the slots of those that end are used again."""

    kind: Literal["slots"]
    rounds: Count
    lengths: tuple[Count, Count]

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        requests = _many(self.name, self.rounds * facts.running + 1, self.lengths, self.tokens, prompts)
        yield Scene(self.name, tuple(replace(r, tokens=1 + n * 7 % self.tokens) for n, r in enumerate(requests)))


class Stops(_Set):
    """Requests that end in every way: stop ids, stop strings (where there are ``strings``), the end of text, the last token."""

    kind: Literal["stops"]
    requests: Count
    lengths: tuple[Count, Count]
    ids: tuple[int, ...] = Field(min_length=1)
    strings: tuple[str, ...] = ()

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        ways: dict[str, dict[str, Any]] = {"ids": {"stop_ids": self.ids}, "eos": {"ignore_eos": False}, "last": {}}
        if self.strings:
            ways["strings"] = {"stop_strings": self.strings}
        made = []
        for way, fields in ways.items():
            for n, request in enumerate(_many(f"{self.name}/{way}", self.requests, self.lengths, self.tokens, prompts)):
                made.append(replace(request, name=f"{way}-{n}", **fields))
        yield Scene(self.name, tuple(made))


class StepTimes(_Set):
    """The protocol of the pull request's step times (vllm-project/vllm pull request 61867), as far as it is published.

    For each number of running requests ``runs`` runs, in each of which every running place serves ``prompts`` prompts one after
    another. That four prompts means four for each running request is our reading.
    """

    kind: Literal["step_times"]
    running: tuple[Count, ...] = Field(min_length=1)
    runs: Count
    prompts: Count
    length: Count

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """Scenes ``name-running-run``."""
        for running in self.running:
            for run in range(1, self.runs + 1):
                name = f"{self.name}-{running}-run{run}"
                places = [(wave, place) for wave in range(self.prompts) for place in range(running)]
                requests = [
                    Request(f"{wave}-{place}", prompts(f"{name}/{wave}-{place}", self.length), self.tokens, wave=wave)
                    for wave, place in places
                ]
                yield Scene(name, tuple(requests), decode_only=True)


class Dictated(BaseModel):
    """Requests that must decode a given text of ``length`` tokens, all but its first, together.

    So decode, and not prefill, writes the cache of conversations that are long, and whose answers repeat what stands far before
    them. The tokens that a request decodes of its own accord are too few for that.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["dictated"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    requests: Count
    length: Annotated[int, Field(ge=2)]

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        made = []
        for n in range(self.requests):
            text = prompts(f"{self.name}/{n}", self.length)
            made.append(Request(f"{n}", text[:1], len(text) - 1, kind="forced", forced=text[1:]))
        yield Scene(self.name, tuple(made), decode_only=True)


class Company(BaseModel):
    """``watched`` texts dictated again and again, each time among others: what a request is told must not hang on its neighbours.

    For each size (requests together, all of ``length`` tokens, so that every step is of that size) ``rounds`` scenes: the watched
    texts are the same in all, the others' and the places in the batch are not. ``prompt``: so many tokens of each text are given
    and the rest is decoded greedily, where nothing can be dictated; the size of steps shrinks then as requests end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["company"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    watched: Count
    sizes: tuple[Count, ...] = Field(min_length=1)
    rounds: Annotated[int, Field(ge=2)]
    length: Annotated[int, Field(ge=2)]
    prompt: Count | None = None

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """Scenes ``name-size-round``; InputError for a size without room for the watched requests."""
        watched = [(f"{WATCHED}{n}", prompts(f"{self.name}/watched/{n}", self.length)) for n in range(self.watched)]
        for size in self.sizes:
            if size < self.watched:
                raise InputError(f"scene {self.name}: {self.watched} watched requests do not fit into a size of {size}")
            for turn in range(self.rounds):
                name = f"{self.name}-{size}-{turn}"
                others = [(f"{n}", prompts(f"{name}/{n}", self.length)) for n in range(size - self.watched)]
                first = turn * max(1, size // self.rounds)
                texts = (watched + others)[first:] + (watched + others)[:first]
                yield Scene(name, tuple(self._request(who, text) for who, text in texts), decode_only=True)

    def _request(self, who: str, text: tuple[int, ...]) -> Request:
        if self.prompt is None:
            return Request(who, text[:1], len(text) - 1, kind="forced", forced=text[1:])
        return Request(who, text[: self.prompt], len(text) - self.prompt)


class Canaries(_Set):
    """Short questions with known answers, one at a time, greedily: the same ones in every scene of this kind.

    A scene of them before and one behind the long outputs say whether those left anything behind.
    """

    kind: Literal["canaries"]
    requests: Count
    tasks: tasks.Source

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        made = []
        for n, asked in enumerate(tasks.canaries(self.tasks, self.requests)):
            made.append(
                Request(
                    f"{n}",
                    asked.prompt,
                    self.tokens,
                    wave=n,
                    text=asked.text,
                    stop_ids=asked.stops,
                    ignore_eos=False,
                    worded=True,
                    expects=asked.answer,
                )
            )
        yield Scene(self.name, tuple(made))


class Long(_Set):
    """Long outputs: ``sampled`` at temperature 1, each with a seed of its own, and ``greedy`` ones beside them.

    They run all at once, or ``at_once`` of them. ``tokens`` is the budget; ``turns``: questions in each output of the stand-in,
    by which it becomes long. ``draw`` shifts all seeds: other samples of the same prompts.
    """

    kind: Literal["long"]
    sampled: Annotated[int, Field(ge=0)]
    greedy: Annotated[int, Field(ge=0)]
    at_once: Count | None = None
    tasks: tasks.Source
    turns: Annotated[int, Field(ge=0)] = 0
    draw: Annotated[int, Field(ge=0)] = 0

    def build(self, facts: Facts, prompts: Prompts) -> Iterator[Scene]:
        """One scene."""
        made = []
        for n, asked in enumerate(tasks.long(self.tasks, self.sampled + self.greedy, self.turns)):
            drawn = n < self.sampled
            request = Request(
                f"sampled-{n}" if drawn else f"greedy-{n}",
                asked.prompt,
                self.tokens,
                kind="sampled" if drawn else "greedy",
                temperature=1.0 if drawn else 0.0,
                seed=n + 1000 * self.draw if drawn else None,
                wave=n // self.at_once if self.at_once else 0,
                text=asked.text,
                turns=asked.turns,
                end=asked.end,
                stop_ids=asked.stops,
                ignore_eos=bool(asked.turns),
                worded=True,
            )
            made.append(request)
        yield Scene(self.name, tuple(made), decode_only=True)


class Forced(BaseModel):
    """The requests of earlier scenes once more: each must decode what the default arm decoded. Scenes ``name-scene``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["forced"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    of: tuple[str, ...] = Field(min_length=1)


SceneSet = Annotated[
    Alone
    | Boundaries
    | Together
    | Arrivals
    | Chunked
    | Prefix
    | Preemption
    | Slots
    | Stops
    | StepTimes
    | Dictated
    | Company
    | Canaries
    | Long
    | Forced,
    Field(discriminator="kind"),
]


def build(sets: tuple[SceneSet, ...], facts: Facts, prompts: Prompts) -> list[Scene]:
    """All scenes; those of forced decoding have no tokens yet. InputError if the engine is too small for one."""
    made: dict[str, list[Scene]] = {}
    for one in sets:
        if isinstance(one, Forced):
            greedy = [scene for name in one.of for scene in made[name]]
            made[one.name] = [_forced(one.name, scene) for scene in greedy]
        else:
            made[one.name] = list(one.build(facts, prompts))
    scenes = [scene for of_set in made.values() for scene in of_set]
    for scene in scenes:
        for request in scene.requests:
            if len(request.prompt) + request.tokens > facts.longest:
                wanted = f"{len(request.prompt)} + {request.tokens} tokens"
                raise InputError(f"scene {scene.name}: {request.name} has {wanted}, and max_model_len is {facts.longest}")
    return scenes


def in_float32(scenes: list[Scene]) -> list[Scene]:
    """Those that the float32 arm decodes: the forced ones where there are any, as the others' tokens may soon part."""
    return [scene for scene in scenes if scene.forced] or scenes


def digest(scenes: list[Scene]) -> str:
    """Of everything that is asked, 16 hex digits: arms of equal digests were asked the same."""
    said = repr(scenes)
    # Beside what every request has, so that records of other scenes keep their digests.
    further = [
        (scene.name, r.name, r.temperature, r.seed, r.text, r.turns, r.end, r.expects)
        for scene in scenes
        for r in scene.requests
        if r.worded
    ]
    return hashlib.sha256((said + repr(further) if further else said).encode()).hexdigest()[:16]


def with_tokens(scene: Scene, decoded: dict[str, tuple[int, ...]]) -> Scene:
    """A scene of forced decoding with the tokens to force, by request. InputError if one has none."""
    lacking = [request.name for request in scene.requests if not decoded.get(request.name)]
    if lacking:
        raise InputError(f"scene {scene.name}: no tokens to force for {lacking[0]}: record {scene.of} of the default arm first")
    requests = [replace(r, forced=decoded[r.name], tokens=len(decoded[r.name])) for r in scene.requests]
    return replace(scene, requests=tuple(requests))


def _forced(name: str, scene: Scene) -> Scene:
    how: dict[str, Any] = {"kind": "forced", "stop_ids": (), "stop_strings": (), "ignore_eos": True}
    how |= {"temperature": 0.0, "seed": None, "turns": (), "worded": False}
    requests = [replace(r, **how) for r in scene.requests]
    return replace(scene, name=f"{name}-{scene.name}", requests=tuple(requests), of=scene.name)


def _alone(name: str, lengths: dict[str, int], tokens: int, prompts: Prompts) -> Scene:
    requests = [
        Request(request, prompts(f"{name}/{request}", length), tokens, wave=n)
        for n, (request, length) in enumerate(lengths.items())
    ]
    return Scene(name, tuple(requests), composed=False)


def _many(name: str, count: int, lengths: tuple[int, int], tokens: int, prompts: Prompts) -> tuple[Request, ...]:
    """Their lengths are spread evenly over the range, both ends included, and shuffled by a fixed step."""
    low, high = lengths
    spread = [low + (high - low) * (n * 5 % count if count % 5 else n) // max(1, count - 1) for n in range(count)]
    return tuple(Request(f"{n}", prompts(f"{name}/{n}", spread[n]), tokens) for n in range(count))
