"""``--dry-run``: resolves every case of a profile on any machine. Nothing is run and nothing is recorded."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from validate.errors import InputError
from validate.model.call import Call
from validate.numerics import judge, selection, subjects
from validate.numerics.case import Case
from validate.numerics.footprint import Footprint, footprint, ranks_of
from validate.profiles import Profile
from validate.records.model import Arguments

# Stages whose tensors are sized by the kind of inputs, too: lengths and dtype of MLA's cache.
SIZED_BY_INPUTS = ("mla",)
NEEDED = ("triton", "cutlass")  # what vLLM's kernels are written in
PORT = 29500


@dataclass(frozen=True)
class Resolved:
    """A case with what it takes, and by subject why that one cannot run it (None: it can)."""

    case: Case
    footprint: Footprint
    reasons: Mapping[str, str | None]


def dry_run(arguments: Arguments, profile: Profile, out: Console) -> int:
    """Prints what a run with these arguments would need. InputError where it would be refused."""
    out.print(f"dry run of profile {arguments.profile}: nothing is run", soft_wrap=True)
    for line in _imports(profile, arguments.vllm_src):
        out.print(line, soft_wrap=True)
    cases = selection.select(judge.cases(profile), arguments.keyword)
    found = resolve(cases, subjects.without_gpu(profile, arguments.vllm_src))
    for one in found:  # before the rest: there are hundreds
        out.print(_line(one), soft_wrap=True, markup=False)
    out.print(_table(found))
    idle = sum(None not in one.reasons.values() for one in found)
    out.print(f"{len(found)} cases; no subject runs {idle} of them: they are reported as not run", soft_wrap=True)
    for line in commands(cases, arguments, profile):
        out.print(line, soft_wrap=True, markup=False)
    return 0


def resolve(cases: Iterable[Case], missing: Mapping[str, Callable[[Call], str | None]]) -> list[Resolved]:
    """Every case with its needs. Inputs are built once for all cases of equal sizes, and dropped."""
    known: dict[str, tuple[Footprint, dict[str, str | None]]] = {}
    found = []
    for case in cases:
        sizes = case.id.rsplit("/", 1)[0] if case.stage in SIZED_BY_INPUTS else case.id.rsplit("/", 2)[0]
        if sizes not in known:
            call = judge.build(case)
            known[sizes] = footprint(call), {name: ask(call) for name, ask in missing.items()}
        found.append(Resolved(case, *known[sizes]))
    return found


def commands(cases: Sequence[Case], arguments: Arguments, profile: Profile) -> list[str]:
    """What to start on which node, for the cases of one GPU and for those of several."""
    if profile.runs_on == "emulated":
        return [
            "",
            "to run it, in one process for all ranks of a case and without a GPU:",
            f"  {_command(arguments, profile, [], arguments.keyword)}",
        ]
    spread = ["-n", str(profile.gpus_per_node)]
    lines = ["", "what runs on one GPU, parts that need several emulated; it is spread over the GPUs of one node:"]
    lines.append(f"  node 0: {_command(arguments, profile, spread, arguments.keyword)}")
    several = [case for case in cases if ranks_of(case.stage, case.sizes) > 1]
    others = [case for case in cases if ranks_of(case.stage, case.sizes) == 1]
    if several and not subjects.over_several(profile):
        line = f"{len(several)} cases of several ranks can not be started over several GPUs yet"
        lines += ["", f"{line}: what runs of them runs on one, which holds the tensors of all ranks"]
    elif several:
        lines += ["", f"{len(several)} cases of several GPUs, one process each; on every node, HEAD is the address of node 0:"]
        for node in range(profile.nodes):
            start = f"torchrun --nnodes {profile.nodes} --nproc-per-node {profile.gpus_per_node} --node-rank {node}"
            start += f" --master-addr HEAD --master-port {PORT}"
            lines.append(
                f"  node {node}: {_command(arguments, profile, [], _keyword(several, others, arguments.keyword), start)}"
            )
    return lines


def _imports(profile: Profile, vllm_src: str | None) -> list[str]:
    """Checks vLLM's entry points and imports the modules that the adapters call, as far as they are at hand."""
    paths = subjects.kernel_paths(profile)
    if not paths:
        return []
    from validate.paths import vllm
    from validate.paths.vllm import source

    try:
        files = source.opened(Path(vllm_src) if vllm_src else None)
    except InputError:
        if vllm_src:
            raise
        return ["vLLM is not installed here, and --vllm-src names none: its entry points and modules are not checked"]
    vllm.check(paths, files)
    checked = f"vLLM {files.version()[0]} under {files.root}: the entry points are those that the adapters call"
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if lacking:
        return [checked, f"{' and '.join(lacking)} not installed here: vLLM's modules are not imported"]
    return [checked, f"{sum(vllm.load(path, files) for path in paths)} modules of vLLM imported"]


def _table(found: Sequence[Resolved]) -> Table:
    names = list(found[0].reasons)
    table = Table("stage")
    for heading in ("cases", "ranks", *names, "MiB a rank"):
        table.add_column(heading, justify="right")
    table.add_column("largest tensor")
    for stage in dict.fromkeys(r.case.stage for r in found):
        own = [r for r in found if r.case.stage == stage]
        most = max(own, key=lambda r: r.footprint.mib)
        ranks = ", ".join(str(n) for n in sorted({r.footprint.ranks for r in own}))
        runs = [sum(r.reasons[name] is None for r in own) for name in names]
        largest = max((r.footprint.largest for r in own), key=lambda piece: piece.bytes)
        cells = (stage, len(own), ranks, *runs, f"{most.footprint.mib:.1f}", largest)
        table.add_row(*map(str, cells))
    return table


def _line(one: Resolved) -> str:
    can = [name for name, reason in one.reasons.items() if reason is None]
    cannot: dict[str, list[str]] = {}
    for name, reason in one.reasons.items():
        if reason is not None:
            cannot.setdefault(reason, []).append(name)
    parts = [", ".join(can)] if can else []
    parts += [f"not {', '.join(names)}: {reason}" for reason, names in cannot.items()]
    ranks = f"{one.footprint.ranks} rank{'s' if one.footprint.ranks > 1 else ''}"
    return f"{one.case.id}  {ranks}, {one.footprint.mib:.1f} MiB a rank, {one.footprint.largest}; {'; '.join(parts)}"


def _command(arguments: Arguments, profile: Profile, options: Sequence[str], keyword: str | None, start: str = "python") -> str:
    words = ["validate", "numerics", "--profile", arguments.profile, "--seeds", str(profile.seeds), *options]
    if arguments.vllm_src:
        words += ["--vllm-src", arguments.vllm_src]
    if keyword is not None:
        words += ["-k", keyword]
    return f"{start} -m {shlex.join(words)}"


def _keyword(wanted: Sequence[Case], others: Sequence[Case], given: str | None) -> str | None:
    """What selects the wanted cases and not the others, on top of the keyword that was given."""
    if not others:
        return given
    kinds = dict.fromkeys(_kind(case, others) for case in wanted)
    if given is None:
        return " or ".join(kinds)
    return " or ".join(f"{alternative} and {kind}" for alternative in given.split(" or ") for kind in kinds)


def _kind(case: Case, others: Sequence[Case]) -> str:
    """The case's stage; where it has cases of one rank and of several, with what tells them apart."""
    stage = f"{case.stage}/"
    if any(other.stage == case.stage for other in others):
        return f"{stage} and -dcp{case.sizes['dcp']}-"
    return stage
