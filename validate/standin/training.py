"""Training of the practice model on one GPU: ``python -m validate.standin.training OUT --seconds 375``.

Two phases: to repeat words, then the tasks (``evals.practice.corpus``).
Conversations are batched by length, so that a row holds one of them, padded; every length has a CUDA graph of forward, backward
and optimizer. The learning rate follows the clock: up over ``WARMUP`` steps, level, then down to nothing over the last ``DECAY``
of the time. What is saved is rounded to bf16, and that is what is evaluated, on the test split.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from evals.practice import chat, choices, corpus, integers, needles, stories, tokenizer
from validate.model.dimensions import Dimensions
from validate.standin import network, recurrence, weights
from validate.standin.forms import Forms, Weights

LENGTHS = (64, 128, 192, 256, 384, 512, 768, 1024)  # tokens a row is padded to
TOKENS = 2**15  # a batch
RATE, WARMUP, DECAY = 3e-3, 100, 0.4
BLOCKS = {1: 20, 2: 140}  # blocks of the corpus a phase
SHARE = 0.12  # of the time, for the first phase
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.1, 1.0
TESTED = 500  # items a shape
STEEPEST = 40.0  # bound on MLA's attention logits: without one they grow until a softmax is one-hot whatever is asked, for good
BALANCE = 1e-3  # step of the experts' correction bias (auxiliary-loss-free balancing, arXiv 2408.15664)


class Trainee(nn.Module):
    """The stand-in over whole rows: tokens [B, T] to logits [B, T, vocab], all in fp32."""

    def __init__(self, dimensions: Dimensions, first: Weights) -> None:
        super().__init__()
        self.d, self.forms = dimensions, Forms(dimensions)
        self.flat = nn.ParameterDict({name.replace(".", "/"): nn.Parameter(value) for name, value in first.items()})
        self.load: list[Tensor] = []
        self.steepness: list[Tensor] = []

    def values(self) -> Weights:
        """The parameters by file name."""
        return {name.replace("/", "."): value for name, value in self.flat.items()}

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits; ``load`` then has MoE layers' shares of tokens by expert, ``steepness`` bounds of MLA heads' logits."""
        layers, ends = weights.by_layer(self.d, self.values())
        self.load, self.steepness, batch = [], [], len(tokens)

        def attention(forms: Forms, n: int, own: Weights, x: Tensor) -> Tensor:
            parts = network.projected(forms, self.d.is_mla(n), own, x)
            return (self._mla if self.d.is_mla(n) else self._kda)(own, batch, *parts)

        hidden = network.run(self.forms, layers, ends, tokens.flatten(), attention, self._moe)
        return (hidden @ ends["head"].T).unflatten(0, tokens.shape)

    def _kda(self, own: Weights, batch: int, qkv: Tensor, gate: Tensor, f_a: Tensor, beta: Tensor) -> Tensor:
        forms = self.forms
        taps = self.d.conv_width - 1
        rows = nn.functional.pad(qkv.unflatten(0, (batch, -1)), (0, 0, taps, 0))
        windows = rows.unfold(1, taps + 1, 1).transpose(2, 3).flatten(0, 1)
        heads = forms.kda_heads(forms.convolve(own, windows))
        log_decay, beta = forms.kda_gates(own, f_a, beta)
        query, key, value, log_decay = (x.unflatten(0, (batch, -1)).transpose(1, 2) for x in (*heads, log_decay))
        beta = beta.unflatten(0, (batch, -1)).transpose(1, 2)
        state = query.new_zeros(batch, self.d.heads, self.d.head_dim, self.d.head_dim)
        out, _ = recurrence.chunked(query, key, value, log_decay, beta, state)
        return forms.kda_out(own, out.transpose(1, 2).flatten(0, 1), gate)

    def _mla(self, own: Weights, batch: int, q_a: Tensor, kv: Tensor, k_pe: Tensor, gate: Tensor) -> Tensor:
        heads = (x.unflatten(0, (batch, -1)).transpose(1, 2) for x in self.forms.mla_heads(own, q_a, kv, k_pe))
        query, key, value = heads
        longest_query, longest_key = (x.detach().norm(dim=-1).amax((0, 2)) for x in (query, key))
        self.steepness.append(self.d.mla_scale * longest_query * longest_key)
        out = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.d.mla_scale)
        return self.forms.mla_out(out.transpose(1, 2).flatten(0, 1).flatten(1), gate)

    def _moe(self, own: Weights, x: Tensor) -> Tensor:
        """All experts of every row, those that were not chosen with share 0."""
        forms = self.forms
        chosen, share = forms.route(own, x)
        dense = x.new_zeros(len(x), self.d.experts).scatter(1, chosen, share)
        self.load.append((dense > 0).float().mean(0).detach())
        latent = forms.linear(x, own["latent_down"])
        gate, up = (latent @ own["w13"].flatten(0, 1).T).unflatten(1, (self.d.experts, -1)).chunk(2, 2)
        hidden = forms.situ(gate, up) * dense[..., None]
        mixed = hidden.flatten(1) @ own["w2"].transpose(1, 2).flatten(0, 1)
        return forms.tail(own, mixed, forms.shared(own, x))

    @torch.no_grad()
    def flatten(self) -> None:
        """Scales the queries of heads whose logits may be beyond :data:`STEEPEST` (as QK-Clip does, arXiv 2507.20534)."""
        mla = [n for n in range(self.d.layers) if self.d.is_mla(n)]
        for n, steepness in zip(mla, self.steepness, strict=True):
            heads = self.flat[f"layers/{n}/q_b"].unflatten(0, (self.d.heads, -1))
            heads.mul_((STEEPEST / steepness).clamp_max(1)[:, None, None])

    @torch.no_grad()
    def balance(self) -> None:
        """Moves every expert's bias against its load."""
        moe = [n for n in range(self.d.layers) if n > 0]
        for n, load in zip(moe, self.load, strict=True):
            self.flat[f"layers/{n}/bias"].add_(BALANCE * torch.sign(load.mean() - load))


class Conversations:
    """Conversations by row length: ``rows[T]`` are tokens int16 [n, T] and which of them are graded, bool [n, T]."""

    def __init__(self, tokens: list[np.ndarray], graded: list[np.ndarray], device: torch.device) -> None:
        sizes = np.array([len(one) for one in tokens])
        self.rows: dict[int, tuple[Tensor, Tensor]] = {}
        for low, length in zip((0, *LENGTHS), LENGTHS, strict=False):
            of = np.flatnonzero((sizes > low) & (sizes <= length))
            ids, marks = np.zeros((len(of), length), np.int16), np.zeros((len(of), length), bool)
            for row, n in enumerate(of):
                ids[row, : sizes[n]], marks[row, : sizes[n]] = tokens[n], graded[n]
            if len(of):
                self.rows[length] = torch.from_numpy(ids).to(device), torch.from_numpy(marks).to(device)

    @classmethod
    def trained_on(cls, phase: int, blocks: int, processes: int, device: torch.device) -> "Conversations":
        """Those of so many blocks of the corpus, cut out of its rows; no phase has another's."""
        tokens, graded = [], []
        for pair in corpus.blocks(phase - 1, blocks, processes, phase=phase):
            for rows in pair:
                for ids, loss, document in zip(rows.tokens, rows.loss, rows.document, strict=True):
                    cuts = np.flatnonzero(np.diff(document)) + 1
                    for part in np.split(np.arange(len(ids)), cuts):
                        if document[part[0]]:
                            tokens.append(ids[part])
                            graded.append(loss[part])
        return cls(tokens, graded, device)

    @classmethod
    def of_the_test_split(cls, shape: ModuleType, count: int, device: torch.device) -> "Conversations":
        """``count`` of one shape, with thinking."""
        items = [shape.item(0, n, "test") for n in range(count)]
        encode = tokenizer.load().encode
        pairs = [(encode(chat.prompt(i.messages, True)).ids, encode(chat.answer(i, True)).ids) for i in items]
        tokens = [np.array(prompt + answer) for prompt, answer in pairs]
        return cls(tokens, [np.arange(len(p) + len(a)) >= len(p) for p, a in pairs], device)

    def batches(self, generator: np.random.Generator) -> list[tuple[int, Tensor]]:
        """One pass: (length, row indices) in random order; a length's incomplete last batch is left out."""
        found = []
        for length, (tokens, _) in self.rows.items():
            size = TOKENS // length
            order = torch.from_numpy(generator.permutation(len(tokens)))
            found += [(length, part) for part in order.split(size) if len(part) == size]
        generator.shuffle(found)
        return found


def loss_of(logits: Tensor, tokens: Tensor, graded: Tensor) -> Tensor:
    """Mean cross entropy of the graded tokens, each predicted from those before it."""
    each = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    marks = graded[:, 1:].flatten().float()
    return (each * marks).sum() / marks.sum().clamp_min(1)


class Steps:
    """One optimizer step of every row length, captured as a CUDA graph the first time it is used."""

    def __init__(self, trainee: Trainee, device: torch.device) -> None:
        self.trainee, self.device = trainee, device
        trained = [(name, value) for name, value in trainee.named_parameters() if not name.endswith("bias") or "dt_" in name]
        matrices = [value for name, value in trained if value.dim() > 1 and "conv" not in name]
        others = [value for name, value in trained if value.dim() <= 1 or "conv" in name]
        self.rate = torch.tensor(0.0, device=device)
        groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        cuda = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(groups, lr=self.rate, betas=BETAS, capturable=cuda, fused=cuda)
        self.parameters = [*matrices, *others]
        self.pool = torch.cuda.graph_pool_handle() if cuda else None  # one for all: they never run at the same time
        self.graphs: dict[int, tuple[Callable[[], None], Tensor, Tensor, Tensor]] = {}

    def __call__(self, tokens: Tensor, graded: Tensor, rate: float) -> Tensor:
        """Loss before the step. ``tokens`` and ``graded`` [B, T]."""
        length = tokens.shape[1]
        self.rate.fill_(rate)
        if length not in self.graphs:
            self.graphs[length] = self._capture(tokens, graded)
        replay, held_tokens, held_graded, loss = self.graphs[length]
        held_tokens.copy_(tokens)
        held_graded.copy_(graded)
        replay()
        return loss

    def _capture(self, tokens: Tensor, graded: Tensor) -> tuple[Callable[[], None], Tensor, Tensor, Tensor]:
        held_tokens, held_graded, loss = tokens.long(), graded.clone(), torch.zeros((), device=self.device)

        def step() -> None:
            self.optimizer.zero_grad(set_to_none=False)
            found = loss_of(self.trainee(held_tokens), held_tokens, held_graded)
            found.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
            self.optimizer.step()
            self.trainee.balance()
            self.trainee.flatten()
            loss.copy_(found.detach())

        if self.device.type != "cuda":
            return step, held_tokens, held_graded, loss
        for value in self.parameters:
            if value.grad is None:
                value.grad = torch.zeros_like(value)
        kept = {id(p): p.detach().clone() for p in self.trainee.parameters()}
        rate = self.rate.clone()
        self.rate.fill_(0.0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()  # allocates what a capture may not
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            step()
        with torch.no_grad():
            for value in self.trainee.parameters():
                value.copy_(kept[id(value)])
        self.rate.copy_(rate)
        return graph.replay, held_tokens, held_graded, loss


def rate_at(step: int, passed: float) -> float:
    """Learning rate at ``step`` when ``passed`` of the time (0 to 1) is over."""
    return RATE * min(1.0, (step + 1) / WARMUP) * min(1.0, max(0.0, 1 - passed) / DECAY)


@torch.no_grad()
def predicted(trainee: Trainee, held_out: Conversations) -> int:
    """How many conversations' graded tokens are all the likeliest ones: greedy decoding then writes the ideal answer."""
    right = 0
    for length, (tokens, graded) in held_out.rows.items():
        for part in torch.arange(len(tokens)).split(TOKENS // length):
            ids, marks = tokens[part].long(), graded[part]
            wrong = (trainee(ids)[:, :-1].argmax(-1) != ids[:, 1:]) & marks[:, 1:]
            right += int((~wrong.any(1)).sum())
    return right


def schedule(seconds: float, processes: int, seed: int, device: torch.device) -> Iterator[tuple[float, Tensor, Tensor]]:
    """Tokens and grades of one batch after the other, and before them how much of the time (0 to 1) is over."""
    phases = {phase: Conversations.trained_on(phase, blocks, processes, device) for phase, blocks in BLOCKS.items()}
    generator = np.random.default_rng(seed)
    start, passed = time.monotonic(), 0.0
    for phase, end in ((1, SHARE), (2, 1.0)):
        while passed < end:
            for length, rows in phases[phase].batches(generator):
                tokens, graded = (x[rows.to(device)] for x in phases[phase].rows[length])
                yield passed, tokens, graded
                passed = (time.monotonic() - start) / seconds
                if passed >= end:
                    break


def train(out: Path, seconds: float, processes: int, seed: int) -> None:
    """Trains for ``seconds``, saves in ``out``, and tries the test split."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    d = weights.PRACTICE
    trainee = Trainee(d, weights.first(d, seed)).to(device)
    print(f"{sum(p.numel() for p in trainee.parameters()):,} parameters on {device}", flush=True)
    steps, step, seen = Steps(trainee, device), 0, 0
    for passed, tokens, graded in schedule(seconds, processes, seed, device):
        loss = steps(tokens, graded, rate_at(step, passed))
        step, seen = step + 1, seen + tokens.numel()
        if step % 8 == 0 and device.type == "cuda":
            torch.cuda.synchronize()  # or the clock would run ahead of the device
        if step % 50 == 0 or step in (1, 10):
            print(f"step {step}, {passed:.0%}, rows of {tokens.shape[1]}, loss {float(loss):.4f}", flush=True)
    rounded = {name: value.detach().bfloat16() for name, value in trainee.values().items()}
    weights.save(d, {name: value.cpu() for name, value in rounded.items()}, out)
    with torch.no_grad():
        for name, value in trainee.values().items():
            value.copy_(rounded[name])
    print(f"{step} steps, {seen / 1e6:.0f} M tokens", flush=True)
    for shape in (integers, choices, stories, needles):
        right = predicted(trainee, Conversations.of_the_test_split(shape, TESTED, device))
        print(f"{shape.SHAPE}: {right} of {TESTED} ideal answers are the greedy ones", flush=True)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description="trains the practice model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=375)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    train(given.out, given.seconds, given.processes, given.seed)
