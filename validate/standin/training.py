"""Training of the practice model: ``python -m validate.standin.training CORPUS OUT --seconds 500`` on one GPU.

CORPUS is a file of ``evals.practice.corpus``. Conversations are batched by length, so that a row holds one of them, padded; every
length has a CUDA graph of forward, backward and optimizer. The learning rate follows the clock: up over ``WARMUP`` steps, level, then
down to nothing over the last ``DECAY`` of the time. What is saved is rounded to bf16, and that is what is evaluated.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from validate.model.dimensions import Dimensions
from validate.standin import network, recurrence, weights
from validate.standin.forms import Forms, Weights

LENGTHS = (64, 128, 192, 256, 384, 512, 768, 1024)  # tokens a row is padded to
TOKENS = 2**15  # a batch
RATE, WARMUP, DECAY = 3e-3, 100, 0.4
BETAS, WEIGHT_DECAY, CLIP = (0.9, 0.95), 0.1, 1.0
FUSED = ("norm", "attn_res", "kda_gates", "convolve", "kda_heads", "kda_out", "mla_out", "situ", "route")  # compiled on a GPU
BALANCE = 1e-3  # step of the experts' correction bias (auxiliary-loss-free balancing, arXiv 2408.15664)


class Trainee(nn.Module):
    """The stand-in over whole rows: tokens [B, T] to logits [B, T, vocab], all in fp32."""

    def __init__(self, dimensions: Dimensions, first: Weights) -> None:
        super().__init__()
        self.d, self.forms = dimensions, Forms(dimensions)
        self.flat = nn.ParameterDict({name.replace(".", "/"): nn.Parameter(value) for name, value in first.items()})
        self.load: list[Tensor] = []

    def values(self) -> Weights:
        """The parameters by file name."""
        return {name.replace("/", "."): value for name, value in self.flat.items()}

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits; ``load`` then has each MoE layer's share of tokens by expert."""
        layers, ends = weights.by_layer(self.d, self.values())
        self.load, batch = [], len(tokens)

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
        out = nn.functional.scaled_dot_product_attention(*heads, is_causal=True, scale=self.d.mla_scale)
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
    def balance(self) -> None:
        """Moves every expert's bias against its load."""
        moe = [n for n in range(self.d.layers) if n > 0]
        for n, load in zip(moe, self.load, strict=True):
            self.flat[f"layers/{n}/bias"].add_(BALANCE * torch.sign(load.mean() - load))


class Conversations:
    """The corpus by row length. ``tokens`` and ``graded`` (loss mask) [n, T] of each length, on the device."""

    def __init__(self, file: Path, device: torch.device) -> None:
        stored = np.load(file)
        tokens, graded, ends = stored["tokens"], stored["graded"], stored["ends"]
        starts = np.concatenate([[0], ends[:-1]])
        sizes = ends - starts
        self.rows: dict[int, tuple[Tensor, Tensor]] = {}
        for low, length in zip((0, *LENGTHS), LENGTHS, strict=False):
            of = np.flatnonzero((sizes > low) & (sizes <= length))
            if not len(of):
                continue
            places = starts[of][:, None] + np.arange(length)
            inside = np.arange(length) < sizes[of][:, None]
            places = np.where(inside, places, 0)
            padded = np.where(inside, tokens[places], 0).astype(np.int16)
            marks = (graded[places] > 0) & inside
            self.rows[length] = tuple(torch.from_numpy(x).to(device) for x in (padded, marks))  # type: ignore[assignment]

    def batches(self, generator: np.random.Generator) -> list[tuple[int, Tensor]]:
        """One pass: (length, row indices) in random order; a length's incomplete last batch is left out."""
        found = []
        for length, (tokens, _) in self.rows.items():
            size = TOKENS // length
            order = torch.from_numpy(generator.permutation(len(tokens)))
            found += [(length, part) for part in order.split(size) if len(part) == size]
        generator.shuffle(found)  # type: ignore[arg-type]
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
def solved(trainee: Trainee, held_out: Conversations) -> dict[int, tuple[int, int]]:
    """By length: how many conversations are predicted whole, token by token, of how many."""
    found = {}
    for length, (tokens, graded) in held_out.rows.items():
        right = 0
        for part in torch.arange(len(tokens)).split(TOKENS // length):
            ids, marks = tokens[part].long(), graded[part]
            wrong = (trainee(ids)[:, :-1].argmax(-1) != ids[:, 1:]) & marks[:, 1:]
            right += int((~wrong.any(1)).sum())
        found[length] = (right, len(tokens))
    return found


def train(corpus: Path, held_out: Path, out: Path, seconds: float, seed: int = 0) -> None:
    """Trains for ``seconds``, saves the practice model in ``out`` and says what it predicts of ``held_out``."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    d = weights.PRACTICE
    trainee = Trainee(d, weights.first(d, seed)).to(device)
    if device.type == "cuda":
        for name in FUSED:
            setattr(trainee.forms, name, torch.compile(getattr(trainee.forms, name), dynamic=True))
    print(f"{sum(p.numel() for p in trainee.parameters()):,} parameters on {device}", flush=True)
    data, steps, generator = Conversations(corpus, device), Steps(trainee, device), np.random.default_rng(seed)
    start, step, seen = time.monotonic(), 0, 0
    while (passed := (time.monotonic() - start) / seconds) < 1:
        for length, rows in data.batches(generator):
            tokens, graded = (x[rows.to(device)] for x in data.rows[length])
            passed = (time.monotonic() - start) / seconds
            loss = steps(tokens, graded, rate_at(step, passed))
            step, seen = step + 1, seen + tokens.numel()
            if step % 100 == 0 or step in (1, 10, 30):  # reading the loss waits for the device, which keeps the clock honest
                print(f"step {step}, {passed:.0%}, {seen / 1e6:.0f} M tokens, loss {float(loss):.4f}", flush=True)
            elif step % 8 == 0 and device.type == "cuda":
                torch.cuda.synchronize()
            if passed >= 1:
                break
    rounded = {name: value.detach().bfloat16() for name, value in trainee.values().items()}
    weights.save(d, {name: value.cpu() for name, value in rounded.items()}, out)
    with torch.no_grad():
        for name, value in trainee.values().items():
            value.copy_(rounded[name])
    for length, (right, of) in solved(trainee, Conversations(held_out, device)).items():
        print(f"held out, up to {length} tokens: {right} of {of} predicted whole", flush=True)
    del steps
    print(f"{step} steps, {seen / 1e6:.0f} M tokens, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description="trains the practice model")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("held_out", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    train(given.corpus, given.held_out, given.out, given.seconds, given.seed)
