"""Faults that short outputs do not show: they begin after so many tokens, or once in so many steps.

Real ones begin where counters, pages and windows end: after 4,096 steps, after 2**k tokens. The stand-in's outputs on a CPU are
900 tokens long, so ``AFTER`` and ``EVERY`` are scaled to them.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from validate.faults.engine import fault
from validate.model.decoding import Request
from validate.paths.dispatch import Deployment, Plan
from validate.standin.forms import Cache, Weights
from validate.standin.specialized import SpecializedForms

AFTER = 512  # tokens of context, prompt included
EVERY = 256  # steps, for 4,096
END, PADDING, CLOSE = 3, 4, 1  # of the practice model's tokenizer
Parts = tuple[Tensor, Tensor, Tensor]


class Placed(SpecializedForms):
    """Knows of each step which it is, and how many tokens each row has before it (``context``, int [rows])."""

    steps = 0
    context: Tensor
    metadata: dict[str, Any]

    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        """As the path's; called before each step."""
        from vllm.forward_context import get_forward_context

        self.steps += 1
        self.metadata = get_forward_context().attn_metadata
        (step, *_) = (one for one in self.metadata.values() if hasattr(one, "decodes"))
        self.context = step.before.clone()
        return super().plan(requests, deployment)

    def pages(self) -> Iterator[tuple[Any, list[str]]]:
        """Each metadata of MLA layers, with a block table of this step's own, and the names of those layers, which share it."""
        named: dict[int, tuple[Any, list[str]]] = {}
        for name, one in self.metadata.items():
            if hasattr(one, "block_table"):
                named.setdefault(id(one), (one, []))[1].append(name)
        for one, names in named.values():
            one.block_table = one.block_table.clone()
            yield one, names

    def page(self, one: Any) -> int:
        """Tokens a page, which the slot of the token at hand tells."""
        last, slots = self.context.long(), one.slot_mapping[: len(self.context)].long()
        rows = torch.arange(len(last))
        for size in (8, 16, 32, 64, 128, 256):
            within = int(last.max()) // size < one.block_table.shape[1]
            if within and (one.block_table[rows, last // size].long() * size + last % size == slots).all():
                return size
        raise ValueError("no page size explains vLLM's slots")


@fault(
    "state-late-once",
    "a state is saved one step late, once in 4,096 steps: the next kernel starts before the store",
    shown="long",
)
class StateLateOnce(Placed):  # noqa: D101 - each fault is described by its decorator
    def kda_store(self, state: Tensor, slots: Tensor, value: Tensor) -> None:
        if self.steps % EVERY:
            super().kda_store(state, slots, value)


@fault(
    "precision-wears-away",
    "the scale of MLA's cache is a running figure that is never reset: later rows are off by more (TensorRT-LLM 16916)",
    shown="long",
)
class PrecisionWearsAway(Placed):  # noqa: D101
    def mla_heads(self, weights: Weights, q_a: Tensor, kv: Tensor, k_pe: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().mla_heads(weights, q_a, kv, k_pe)
        return query, key, (value * (1 + self.context[:, None, None] / (2 * AFTER))).to(value.dtype)


@fault("page-used-again", "a page is handed out twice: from 2**k tokens on two requests keep their states in one", shown="long")
class PageUsedAgain(Placed):  # noqa: D101
    def kda_decode(
        self, weights: Weights, cache: Cache, parts: Parts, slots: Tensor, accepted: Tensor, continued: Tensor
    ) -> Tensor:
        pairs = len(slots) // 2
        second = 2 * torch.arange(pairs) + 1
        second = second[(self.context[second] >= AFTER) & (self.context[second - 1] >= AFTER)]
        slots = slots.clone()
        slots[second] = slots[second - 1]
        return super().kda_decode(weights, cache, parts, slots, accepted, continued)


# KDA carries the practice model's answers: whatever happens to single pages of MLA's cache moves its logits by less than
# bfloat16's rounding does.
@fault("pages-wrap", "an index of pages wraps: from 2**k tokens on rows go to the request's first pages", shown="long in float32")
class PagesWrap(Placed):  # noqa: D101
    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        made = super().plan(requests, deployment)
        if not made.specialized:
            return made
        from vllm.forward_context import get_forward_context

        slots = get_forward_context().slot_mapping
        rows = torch.arange(len(self.context))
        for one, names in self.pages():
            size = self.page(one)
            one.block_table = one.block_table[:, torch.arange(one.block_table.shape[1]) % (AFTER // size)]
            own = slots[names[0]].clone()
            own[: len(rows)] = one.block_table[rows, self.context // size].to(own.dtype) * size + self.context % size
            slots.update(dict.fromkeys(names, own))
        return made


@fault(
    "first-page-lost", "the first page leaves attention after 2**k tokens: a window, where there is none", shown="long in float32"
)
class FirstPageLost(Placed):  # noqa: D101
    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        made = super().plan(requests, deployment)
        if made.specialized:
            for one, _ in self.pages():
                late = (self.context >= AFTER).nonzero()[:, 0]
                one.block_table[late, 0] = one.block_table[late, 1]
        return made


@fault(
    "page-seen-late",
    "from 2**k tokens on the table has the page before the last full one in its place",
    shown="long in float32",
)
class PageSeenLate(Placed):  # noqa: D101
    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        made = super().plan(requests, deployment)
        if made.specialized:
            for one, _ in self.pages():
                size = self.page(one)
                for row in (self.context >= AFTER).nonzero()[:, 0].tolist():
                    full = int(self.context[row]) // size
                    one.block_table[row, full - 1] = one.block_table[row, full - 2]
        return made


@fault("nan-in-one-of-many", "NaN in the logits of one request of many, after so many tokens (vLLM 37442)", shown="long")
class NanInOneOfMany(Placed):  # noqa: D101
    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        logits = super().logits(hidden, head)
        if self.context[0] == AFTER:
            logits[0] = float("nan")
        return logits


@fault(
    "corruption-outlives-request",
    "what a long request held is not reset when it ends: whoever gets its slot or pages begins from it (vLLM 51039)",
    shown="long",
)
class CorruptionOutlivesRequest(Placed):  # noqa: D101
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.left: set[int] = set()

    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        made = super().plan(requests, deployment)
        for row in (self.context == AFTER).nonzero()[:, 0].tolist():
            for one in self.metadata.values():
                if hasattr(one, "decodes"):
                    self.left.update(one.slots[row].tolist())
                else:
                    self.left.update(one.block_table[row, : AFTER // self.page(one)].tolist())
        return made

    def kda_decode(
        self, weights: Weights, cache: Cache, parts: Parts, slots: Tensor, accepted: Tensor, continued: Tensor
    ) -> Tensor:
        dirty = torch.tensor([slot in self.left for slot in slots[:, 0].tolist()]) & (self.context < AFTER)
        if dirty.any():
            cache[1][slots[dirty, 0]] *= 1.25
        return super().kda_decode(weights, cache, parts, slots, accepted, continued)


@fault(
    "loops-late",
    "hidden rows are read from a ring that is no longer written after so many tokens: the output is a loop",
    shown="long",
)
class LoopsLate(Placed):  # noqa: D101
    PERIOD = 12

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.ring: dict[int, Tensor] = {}

    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        logits = super().logits(hidden, head)
        place = self.steps % self.PERIOD
        late = self.context >= AFTER
        before = self.ring.get(place)
        if before is None or before.shape != logits.shape:
            before = logits
        logits = torch.where(late[:, None], before, logits)
        self.ring[place] = logits
        return logits


class OneToken(Placed):
    """Adds ``more`` to the logit of ``token``, of the first row of the batch or of all, from ``AFTER`` tokens on."""

    token: int
    more: float
    all_rows = False

    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        """As the path's, but for that token."""
        logits = super().logits(hidden, head)
        late = self.context >= AFTER
        if not self.all_rows:
            late[1:] = False
        logits[late, self.token] += self.more
        return logits


@fault(
    "zeros-late", "id 0 to the end of one request, after so many tokens: NaN that a kernel took for 0 (vLLM 51039)", shown="long"
)
class ZerosLate(OneToken):  # noqa: D101
    token, more = 0, 1000.0


@fault("padding-late", "the padding id to the end of one request (sglang 32968)", shown="long")
class PaddingLate(OneToken):  # noqa: D101
    token, more = PADDING, 1000.0


@fault("control-token-leaks", "a control token's logit is too large, late in outputs", shown="long")
class ControlTokenLeaks(OneToken):  # noqa: D101
    token, more, all_rows = CLOSE, 8.0, True


@fault("ends-early", "the end of a message is too likely, late in outputs: answers stop in their midst", shown="long")
class EndsEarly(OneToken):  # noqa: D101
    token, more, all_rows = END, 8.0, True


@fault("never-ends", "the end of a message is never decoded, late in outputs: they run into the budget", shown="long")
class NeverEnds(OneToken):  # noqa: D101
    token, more, all_rows = END, -1000.0, True


@fault(
    "other-script-late",
    "late in outputs one request gets tokens of another rank's part of the vocabulary (vLLM 52627)",
    shown="long",
)
class OtherScriptLate(Placed):  # noqa: D101
    def logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        logits = super().logits(hidden, head)
        if self.context[0] >= AFTER:
            logits[0] = logits[0].roll(-logits.shape[1] // 4 * 3)
        return logits
