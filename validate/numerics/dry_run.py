"""``--dry-run``: resolves every case of a profile on any machine. Nothing is run and nothing is recorded."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from validate.errors import InputError
from validate.numerics import judge, selection, subjects
from validate.numerics.case import Case
from validate.numerics.footprint import Footprint, footprint
from validate.profiles import Profile
from validate.records.model import Arguments

NEEDED = ("triton", "cutlass")  # what vLLM's kernels are written in
PORT = 29500
RESTARTS = 8  # each after a lost GPU or a rank that died: of more than some, a person should know


@dataclass(frozen=True)
class Resolved:
    """A case with what it takes, by subject why that one cannot run it (None: it can), and how many processes run it."""

    case: Case
    footprint: Footprint
    reasons: Mapping[str, str | None]
    processes: int


def dry_run(arguments: Arguments, profile: Profile, out: Console) -> int:
    """Prints what a run with these arguments would need. InputError where it would be refused."""
    out.print(f"dry run of profile {arguments.profile}: nothing is run", soft_wrap=True)
    for line in _imports(profile, arguments.vllm_src):
        out.print(line, soft_wrap=True)
    cases = selection.select(judge.cases(profile), arguments.keyword)
    found = resolve(cases, profile, arguments.vllm_src)
    for one in found:  # before the rest: there are hundreds
        out.print(_line(one), soft_wrap=True, markup=False)
    out.print(_table(found))
    idle = sum(None not in one.reasons.values() for one in found)
    none = f"no subject runs {idle} of them: they are reported as not run" if idle else "a subject runs each of them"
    out.print(f"{len(found)} cases; {none}", soft_wrap=True)
    for line in commands(found, arguments, profile):
        out.print(line, soft_wrap=True, markup=False)
    return 0


def resolve(cases: Iterable[Case], profile: Profile, vllm_src: str | None = None) -> list[Resolved]:
    """Every case with its needs. Inputs are built once for all cases of equal sizes, and dropped."""
    missing = subjects.without_gpu(profile, vllm_src)
    known: dict[str, tuple[Footprint, dict[str, str | None], int]] = {}
    found = []
    for case in cases:
        if case.shapes not in known:
            call = judge.build(case)
            reasons = {name: ask(call) for name, ask in missing.items()}
            known[case.shapes] = footprint(call), reasons, subjects.processes(profile, call)
        found.append(Resolved(case, *known[case.shapes]))
    return found


def commands(found: Sequence[Resolved], arguments: Arguments, profile: Profile) -> list[str]:
    """What to start on which node, for the cases of one GPU and for those of several."""
    if profile.runs_on == "emulated":
        return [
            "",
            "to run it, in one process for all ranks of a case and without a GPU:",
            f"  {_command(arguments, profile, [])}",
        ]
    alone = _command(arguments, profile, ["-n", str(profile.gpus_per_node)])
    lines = ["", "what runs on one GPU, spread over the GPUs of one node:", f"  node 0: {alone}"]
    several = sorted({one.processes for one in found if one.processes > 1})
    for ranks in several:
        count = sum(one.processes == ranks for one in found)
        what = f"{count} cases over {ranks} ranks, a process a GPU, added to that run's record"
        lines += ["", f"{what}. RUN is its folder, on a disk that all nodes see;"]
        lines += ["HEAD is the address of node 0. A GPU that is lost is a verdict, and the rest is started again:"]
        nodes = _nodes(ranks, profile)
        start = f"torchrun --nnodes {nodes} --nproc-per-node {ranks // nodes} --max-restarts {RESTARTS}"
        start += f" --rdzv-backend c10d --rdzv-endpoint HEAD:{PORT}"
        where = "every node" if nodes == profile.nodes else f"each of {nodes} nodes" if nodes > 1 else "node 0"
        lines.append(f"  {where}: {start} -m validate numerics --resume RUN")
    if several:
        lines += ["", "the verdict of all:", "  node 0: python -m validate numerics --resume RUN"]
    return lines


def _nodes(ranks: int, profile: Profile) -> int:
    """The fewest nodes whose GPUs hold so many ranks, as many on each. InputError where none do."""
    for nodes in range(1, profile.nodes + 1):
        if ranks % nodes == 0 and ranks // nodes <= profile.gpus_per_node:
            return nodes
    there = f"{profile.nodes} nodes of {profile.gpus_per_node} GPUs"
    raise InputError(f"profile {profile.name}: {ranks} ranks cannot be spread evenly over {there}")


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
    for heading in ("cases", "ranks", *names, "over ranks", "MiB a rank"):
        table.add_column(heading, justify="right")
    table.add_column("largest tensor")
    for stage in dict.fromkeys(r.case.stage for r in found):
        own = [r for r in found if r.case.stage == stage]
        most = max(own, key=lambda r: r.footprint.mib)
        ranks = ", ".join(str(n) for n in sorted({r.footprint.ranks for r in own}))
        runs = [sum(r.reasons[name] is None for r in own) for name in names]
        largest = max((r.footprint.largest for r in own), key=lambda piece: piece.bytes)
        together = sum(r.processes > 1 for r in own)
        cells = (stage, len(own), ranks, *runs, together, f"{most.footprint.mib:.1f}", largest)
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


def _command(arguments: Arguments, profile: Profile, options: Sequence[str]) -> str:
    words = ["validate", "numerics", "--profile", arguments.profile, "--seeds", str(profile.seeds), *options]
    if arguments.vllm_src:
        words += ["--vllm-src", arguments.vllm_src]
    if arguments.keyword is not None:
        words += ["-k", arguments.keyword]
    return f"python -m {shlex.join(words)}"
