"""``build.md``: the verdict, each kernel, what differs, and what this check does not see."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from validate.kernels import golden
from validate.report.tables import markdown
from validate.verdict import Verdict

if TYPE_CHECKING:
    from validate.kernels.check import Architecture, Launches

# Kernels whose real code ran on a GPU, as golden/hopper records it: which of their variants.
H200 = {
    "attn_res/ClusterAttnRes": "",
    "dense_mlp/DenseSitu": "",
    "embedding/EmbeddingGather": "",
    "input_projection/CuteSkinnyGemm": "1 and 2 rows",
    "kda/KdaSplit": "",
    "mla/MlaQuery": "scalar variants",
    "mla/MlaValue": "",
    "o_proj/OprojProducer": "two-shot stores",
    "router/RouteSitu": "",
}
LAUNCHES = (
    "vLLM's own decode steps, every batch and layer, over tensors without memory: each launch's operands (shape, stride, type, "
    "alignment, number) beside those that its kernel was compiled for."
)
NOT_COMPILED = (
    "attention over the cache from 16 rows of plain decode: FlashInfer's trtllm-gen, which is compiled code",
    "all-reduces of the embedding and the dense MLP: NCCL or vLLM's compiled extension",
    "the default path's kernels: `nox -s numerics -- --vllm-src` interprets them",
)


def render(verdict: Verdict, made_with: dict[str, str], done: Sequence["Architecture"], launches: "Launches") -> str:
    """The report of a run as Markdown."""
    versions = ", ".join(f"{name} {value}" for name, value in made_with.items())
    parts = [f"# {verdict}: build", f"{versions}. Nothing was run: kernels were compiled, and their code was read."]
    for architecture in done:
        parts += _architecture(architecture)
    parts += [f"## Launches: {launches.verdict or 'not run'}", LAUNCHES, "\n".join(f"- {line}" for line in launches.lines)]
    parts += ["## Not compiled here", "\n".join(f"- {line}" for line in NOT_COMPILED)]
    return "\n\n".join(parts) + "\n"


def _architecture(found: "Architecture") -> list[str]:
    by_deployment = [[name, len(variants)] for name, variants in found.plan.deployments.items()]
    count = f"{len(found.results)} variants, {len(found.failed)} do not compile, {found.cached} from the cache"
    parts = [f"## {found.name}: {found.verdict}", f"{count}, {found.seconds:.0f} s."]
    parts += [f"Note: {note}." for note in found.notes]
    if found.failed:
        parts.append("\n".join(f"- `{name}`: {why}" for name, why in found.failed.items()))
    if found.differences:
        parts.append("\n".join(f"- {line}" for line in golden.grouped(found.differences)))
    if found.gone:
        parts.append("\n".join(f"- `{name}`: golden knows it, vLLM compiles it no more" for name in found.gone))
    header = ["kernel", "variants", "compiled", "differ", "registers", "stack bytes", "ran", "needs"]
    parts += [markdown(header, _kernels(found)), markdown(["deployment", "variants"], by_deployment)]
    return parts


def _kernels(found: "Architecture") -> list[list[object]]:
    differing = {difference.variant for difference in found.differences}
    kernels: dict[str, list[str]] = {}
    for name in found.results:
        kernels.setdefault(golden.split(name)[0], []).append(name)
    rows = []
    for kernel, names in kernels.items():
        compiled = [found.compiled[name] for name in names if name in found.compiled]
        registers = [int(result["registers"] or 0) for result in compiled]
        stack = max((int(result["stack bytes"] or 0) for result in compiled), default=0)
        span = f"{min(registers)} to {max(registers)}" if registers else ""
        differ = sum(name in differing for name in names)
        needs = "GB300 or B200" if any(_needs_blackwell(result) for result in compiled) else ""
        rows.append([kernel, len(names), len(compiled), differ, span, stack, _ran(kernel), needs])
    return rows


def _ran(kernel: str) -> str:
    if kernel not in H200:
        return "no"
    return f"on an H200{f', {H200[kernel]}' if H200[kernel] else ''} (golden/hopper)"


def _needs_blackwell(result: dict[str, object]) -> bool:
    """Tensor memory or paired fp32 arithmetic: not on a Hopper GPU."""
    return any(name.startswith("tcgen05.") or "f32x2" in name for name in result)
