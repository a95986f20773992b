"""The command line: ``python -m validate``.

Exit codes: 0 PASS, 1 FAIL, 2 INCONCLUSIVE, 3 INVALID or bad input (one line on standard error) or an error of this project's own
(a traceback), 130 after Ctrl-C or SIGTERM (what was measured is kept and can be resumed).
"""

import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from validate.doctor.command import doctor
from validate.errors import InputError
from validate.gate.command import gate
from validate.long_output.drift.command import drift
from validate.races import command as races
from validate.signoff.command import signoff

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)

app.command()(races.races)
app.command()(races.replay)
app.command()(races.races_gpu)
app.command()(drift)
app.command()(signoff)
app.command()(doctor)
app.command()(gate)

Run = Annotated[Path, typer.Argument(help="folder of a run record")]
ProfileName = Annotated[str | None, typer.Option(help="profile name, or a .toml file (default: cpu)")]
Keyword = Annotated[str | None, typer.Option("-k", help="parts of case ids, joined by and, or, not; or one whole id")]
Seeds = Annotated[int | None, typer.Option(min=1, help="seeds a case, instead of the profile's")]
Output = Annotated[Path, typer.Option(help="folder that run records go to")]


@app.command()
def numerics(
    profile: ProfileName = None,
    keyword: Keyword = None,
    workers: Annotated[int | None, typer.Option("-n", min=1, help="worker processes (default: cores; at most 8 a GPU)")] = None,
    seeds: Seeds = None,
    faults: Annotated[bool, typer.Option("--faults", help="run the planted faults; -k selects faults by name")] = False,
    output: Output = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue an interrupted run")] = None,
    plant: Annotated[str | None, typer.Option(help="plant this fault, to see the run fail")] = None,
    vllm_src: Annotated[Path | None, typer.Option(help="vLLM's sources, for the subjects that run its kernels")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="run nothing; say what every case needs, and the commands")] = False,
) -> int:
    """Judges every decode stage of both paths against the float64 reference."""
    from validate.numerics import detection, session  # not before it is needed: these import torch
    from validate.paths import group
    from validate.records import writer
    from validate.records.model import Arguments
    from validate.report.console import console

    given: dict[str, object] = {"profile": profile, "keyword": keyword, "seeds": seeds, "planted": plant}
    given |= {"vllm_src": str(vllm_src) if vllm_src else None, "mode": "faults" if faults else None}
    out = console()
    if group.size() == 1:  # what a CI server or a batch system ends a run by; torchrun's ranks end at once by it
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    if dry_run:
        if resume or faults or plant:
            raise InputError("--dry-run takes none of --resume, --faults and --plant: it resolves the cases of a profile")
        return _dry_run(given, out)
    if resume is not None and group.size() > 1:
        return _over_ranks(resume, given, out)
    if resume is not None:
        _resumable(resume, given)
        current = session.resume(resume, workers, out)
    else:
        if faults and plant:
            raise InputError("--plant and --faults exclude each other: --faults runs every planted fault")
        if faults:
            detection.chosen(keyword)  # refuses one that selects nothing before a folder is made
        chosen = session.profile_of(profile or "cpu", seeds)
        named = {name: value for name, value in given.items() if value is not None}
        arguments = Arguments.model_validate(named | {"seeds": chosen.seeds})
        current = session.start(arguments, chosen, output, workers, out)
    with writer.alone(current.folder):
        return detection.detect(current) if current.manifest.arguments.mode == "faults" else session.numerics(current)


@app.command()
def show(run: Run) -> int:
    """Prints a run record, of another layer than numerics its summary. Exit code 0 if it can be read, whatever its verdict."""
    from validate.records import folder
    from validate.report import summary

    if (run / folder.SUMMARY).is_file() and folder.layer(run) != "numerics":
        typer.echo(folder.text(run / folder.SUMMARY))
        return 0
    manifest, lines = folder.read_manifest(run), folder.read_lines(run)
    special = run / f"{manifest.arguments.mode}.md"
    typer.echo(special.read_text(encoding="utf-8") if special.exists() else summary.render(manifest, lines))
    return 0


@app.command()
def diff(first: Run, second: Run) -> int:
    """Compares two run records stage by stage. Exit code 1 if the second is worse."""
    from validate.records import folder
    from validate.report.compare import compare

    found = compare(*((folder.read_manifest(run), folder.read_lines(run)) for run in (first, second)))
    typer.echo(found.text)
    return int(found.worse)


@app.command()
def compare(
    default: Annotated[Path, typer.Argument(help="record of the default path")],
    again: Annotated[Path, typer.Argument(help="of the default path again, batched otherwise: the noise")],
    specialized: Annotated[Path, typer.Argument(help="of the specialized path")],
    float32: Annotated[
        Path | None, typer.Option(help="of the stand-in's default path in float32: its own error is the noise then")
    ] = None,
    undrafted: Annotated[Path | None, typer.Option(help="of the specialized path without drafts")] = None,
    output: Output = Path("runs"),
) -> int:
    """Compares recorded arms of whole engines; needs no engine.

    Exit code 0 if the specialized path differs from the default one by no more than is allowed, 1 if by more, 2 if the records do
    not decide it, 3 if they are no proof: other engines, requests that are missing, too few specialized steps.
    """
    from validate.equivalence.compare import session
    from validate.report.console import console

    return session.run((default, again, specialized), output, console(), float32=float32, undrafted=undrafted)


@app.command()
def compare_evals(
    default: Annotated[Path, typer.Argument(help="record of the default path's evals")],
    specialized: Annotated[Path, typer.Argument(help="of the specialized path's")],
    again: Annotated[Path | None, typer.Option(help="of the default path's again, with other seeds")] = None,
    output: Output = Path("runs"),
) -> int:
    """Compares recorded arms of evals, paired by item and repeat; needs no engine.

    Exit code 0 if every task's loss is shown to be within its margin, 1 if one is shown to be beyond it, 2 if the records do not
    decide it, 3 if they are no proof: other engines or data, responses that are missing, too few specialized steps.
    """
    from evals.comparing import session
    from validate.report.console import console

    return session.run(default, again, specialized, output, console())


@app.command()
def power(
    default: Annotated[Path, typer.Argument(help="record of the default path's evals")],
    again: Annotated[Path, typer.Argument(help="of the default path's again, with other seeds")],
) -> int:
    """Says before the specialized arm is run what its comparison will find: how likely a PASS is, which losses fail."""
    from evals.comparing import power as planned
    from validate.report.console import console

    return planned.run(default, again, console())


@app.command()
def faults(
    keyword: Annotated[
        str | None, typer.Option("-k", help="parts of faults' names, joined by and, or, not; or a whole name")
    ] = None,
) -> int:
    """Lists the planted faults: of stages (numerics --plant), protocols (races), long recurrences (drift), engines (record)."""
    from rich.table import Table

    from validate.faults.listed import listed
    from validate.report.console import console

    found = listed(keyword)
    for one in found:
        table = Table(*one.header)
        for row in one.rows:
            table.add_row(*row)
        console().print(table, markup=False)
    return 0


@app.command()
def bench(profile: ProfileName = None, keyword: Keyword = None, seeds: Seeds = None, output: Output = Path("runs")) -> int:
    """Measures cases per second, and what each stage and each part of it costs."""
    from validate.numerics import bench as benchmark
    from validate.numerics import session
    from validate.records import writer
    from validate.records.model import Arguments
    from validate.report.console import console

    chosen = session.profile_of(profile or "cpu", seeds)
    arguments = Arguments(mode="bench", profile=profile or "cpu", keyword=keyword, seeds=chosen.seeds)
    current = session.start(arguments, chosen, output, 1, console())
    with writer.alone(current.folder):
        return benchmark.run(current)


@app.command()
def preflight(
    model_config: Annotated[Path, typer.Option(help="the model's config.json")],
    words: Annotated[list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="as they are given to vllm serve")] = None,
    arguments: Annotated[Path | None, typer.Option(help="the engine arguments in a TOML or JSON file")] = None,
    capability: Annotated[str, typer.Option(help="compute capability of the GPUs")] = "10.3",
) -> int:
    """Says what stands in the way of a deployment: what vLLM refuses, and what it should refuse but does not.

    It reads this machine's environment as the deployment's: the variables VLLM_* that are set here count.

    Exit code 0 if nothing does, 2 if there are only warnings, 3 if vLLM refuses it or the path does not support it.
    """
    import os

    from validate.preflight import arguments as read
    from validate.preflight import deployment, findings, verdict

    given = (read.from_file(arguments) if arguments else {}) | read.from_words(words or [])
    described = deployment.Deployment(
        deployment.engine(given), deployment.model_config(model_config), os.environ, deployment.version_of(capability)
    )
    found = findings(described)
    for finding in found:
        typer.echo(finding)
    if ignored := read.not_looked_at(given):
        typer.echo(f"not looked at: {', '.join(ignored)}")
    refused = sum(finding.severity == "refuse" for finding in found)
    outcome = verdict(found)
    typer.echo(f"{outcome}  {refused} refused, {len(found) - refused} warnings, for GPUs of compute capability {capability}")
    return outcome.exit_code


@app.command()
def build(
    profile: ProfileName = None,
    vllm_src: Annotated[
        Path | None, typer.Option(envvar="K3_PARITY_VLLM_SRC", help="the folder that holds vllm/ (default: the installed vLLM)")
    ] = None,
    arch: Annotated[list[str] | None, typer.Option(help="sm_100a or sm_103a; may be repeated (default: both)")] = None,
    keyword: Annotated[str | None, typer.Option("-k", help="parts of variants' names, joined by and, or, not")] = None,
    workers: Annotated[int | None, typer.Option("-n", min=1, help="worker processes (default: cores)")] = None,
    update_golden: Annotated[bool, typer.Option("--update-golden", help="record what is compiled as golden/")] = False,
    cache: Annotated[Path, typer.Option(help="folder of what is known of earlier runs")] = Path("~/.cache/k3-parity/build"),
    output: Output = Path("runs"),
) -> int:
    """Compiles every specialized kernel that a profile uses, without a GPU, and compares its code with golden/."""
    from validate import profiles
    from validate.kernels import check
    from validate.kernels.compiling import ARCHITECTURES
    from validate.paths.vllm.source import opened
    from validate.records.provenance import cores
    from validate.report.console import console

    unknown = [name for name in arch or () if name not in ARCHITECTURES]
    if unknown:
        raise InputError(f"unknown architecture {unknown[0]}: there are {' and '.join(ARCHITECTURES)}")
    request = check.Request(
        root=opened(vllm_src).root,
        profile_name=profile or "cpu",
        profile=profiles.load(profile or "cpu"),
        architectures=arch or ARCHITECTURES,
        keyword=keyword,
        workers=workers or cores(),
        cache=cache.expanduser(),
        output=output,
        update=update_golden,
    )
    return check.run(request, console())


@app.command()
def record(
    arms: Annotated[str, typer.Argument(help="an arm set's name, or a .toml file")],
    arm: Annotated[str, typer.Option(help="default, default-again, specialized or float32")] = "default",
    url: Annotated[
        list[str] | None, typer.Option(help="a server of that arm; may be repeated (default: an engine in process)")
    ] = None,
    force_from: Annotated[Path | None, typer.Option(help="the default arm's record, whose tokens are forced")] = None,
    keyword: Annotated[
        str | None, typer.Option("-k", help="parts of scenes' names, joined by and, or, not; or a whole name")
    ] = None,
    output: Output = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue an interrupted recording")] = None,
    plant: Annotated[str | None, typer.Option(help="plant this fault in the stand-in's specialized arm")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="record nothing; list the scenes")] = False,
    commands: Annotated[
        bool, typer.Option("--commands", help="record nothing; print the commands of all arms and nodes")
    ] = False,
) -> int:
    """Records what a whole engine decodes: one arm of an arm set. Exit code 3 if the record proves nothing."""
    from validate.equivalence import arm as arm_sets
    from validate.equivalence import commands as servers
    from validate.equivalence import listing
    from validate.equivalence import record as recording
    from validate.report.console import console

    chosen = arm_sets.load(arms)
    name = next((known for known in arm_sets.NAMES if known == arm), None)
    if name is None:
        raise InputError(f"--arm {arm}: the arms are {', '.join(arm_sets.NAMES)}")
    if commands:
        typer.echo(servers.render(arms, chosen, keyword))
        return 0
    if dry_run:
        console().print(listing.table(chosen, keyword))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is recorded is kept, and how to go on is said
    asked = recording.Asked(arms, chosen, name, output, tuple(url or ()), resume, force_from, keyword, plant)
    return recording.record(asked, console())


@app.command()
def equivalence(
    arms: Annotated[str, typer.Argument(help="an arm set's name, or a .toml file")] = "cpu-bf16",
    keyword: Annotated[
        str | None, typer.Option("-k", help="parts of scenes' names (of faults' names with --faults), joined by and, or, not")
    ] = None,
    golden: Annotated[
        bool, typer.Option("--golden", help="record the specialized arm only: the others are golden/transcripts")
    ] = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="plant every fault of a whole engine in turn, and say which check finds it")
    ] = False,
    default_url: Annotated[list[str] | None, typer.Option(help="a running vLLM server of the default path")] = None,
    specialized_url: Annotated[list[str] | None, typer.Option(help="the same of the specialized path")] = None,
    output: Output = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue an interrupted run, or record its other arms")] = None,
) -> int:
    """Records all arms of a set, with engines in process or on servers, and compares them.

    Exit code 1 if the specialized path differs by more than is allowed, or a planted fault is missed.
    """
    from validate.equivalence import arm as arm_sets
    from validate.equivalence import whole
    from validate.report.console import console

    chosen, out = arm_sets.load(arms), console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the recordings under way end with it
    begun = whole.Begun(arm_set=arms, keyword=keyword, golden=golden, faults=faults)
    default, specialized = tuple(default_url or ()), tuple(specialized_url or ())
    urls: whole.Urls = {"default": default, "default-again": default, "specialized": specialized}
    if resume is not None:
        if keyword is not None:
            raise InputError(f"-k cannot be given with --resume: {resume} keeps what it was begun with")
        return whole.resume(resume, begun, chosen, out, urls=urls).run()
    return whole.begin(output, begun, chosen, out, urls=urls).run()


@app.command()
def long_output(
    arms: Annotated[str, typer.Argument(help="an arm set of long outputs, or a .toml file")] = "long-cpu",
    faults: Annotated[
        bool, typer.Option("--faults", help="plant every fault of long outputs in turn, and say what finds it")
    ] = False,
    keyword: Annotated[str | None, typer.Option("-k", help="parts of faults' names, joined by and, or, not")] = None,
    default_url: Annotated[list[str] | None, typer.Option(help="a running vLLM server of the default path")] = None,
    specialized_url: Annotated[list[str] | None, typer.Option(help="the same of the specialized path")] = None,
    output: Output = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue an interrupted run, or record its other arms")] = None,
) -> int:
    """Records long outputs of all arms and compares them: signs of degeneration, differences by position, canaries."""
    from validate.long_output import command
    from validate.report.console import console

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the recordings under way end with it
    urls = tuple(default_url or ()), tuple(specialized_url or ())
    return command.run(arms, keyword, faults, output, resume, urls, console())


@app.command()
def evals(
    suite: Annotated[str | None, typer.Argument(help="a suite's name, or a .toml file (default: practice)")] = None,
    arm: Annotated[str, typer.Option(help="default, default-again or specialized: record that one alone")] = "all",
    data: Annotated[Path | None, typer.Option(help="folder with the data sets' files, instead of the hub")] = None,
    default_url: Annotated[
        list[str] | None, typer.Option(help="a running vLLM server of the default path; may be repeated, for replicas")
    ] = None,
    specialized_url: Annotated[list[str] | None, typer.Option(help="the same of the specialized path")] = None,
    keyword: Annotated[str | None, typer.Option("-k", help="parts of tasks' names, joined by and, or, not")] = None,
    plant: Annotated[str | None, typer.Option(help="plant this fault in the stand-in's specialized arm")] = None,
    output: Output = Path("runs"),
    resume: Annotated[Path | None, typer.Option(help="continue a run: what it was interrupted in, or its other arms")] = None,
    commands: Annotated[
        bool, typer.Option("--commands", help="ask nothing; print the commands of both paths' servers and nodes")
    ] = False,
) -> int:
    """Asks the benchmarks of both paths through lm-eval, and compares them item by item."""
    from evals.running import commands as servers
    from evals.running import suite as suites
    from validate.report.console import console

    if commands:
        typer.echo(servers.render(suite or "practice", suites.load(suite or "practice")))
        return 0
    try:
        from evals.running import whole
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, which evals need: pip install -e '.[practice,evals]'") from error
    name = next((known for known in whole.ARMS if known == arm), None)
    if name is None and arm != "all":
        raise InputError(f"--arm {arm}: the arms are {', '.join(whole.ARMS)}, or all")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is recorded is kept, and how to go on is said
    default, specialized = tuple(default_url or ()), tuple(specialized_url or ())
    urls: whole.Urls = {"default": default, "default-again": default, "specialized": specialized}
    given = {"suite": suite, "keyword": keyword, "data": str(data) if data else None, "plant": plant}
    if resume is not None:
        run = whole.resume(resume, given, urls, console())
    else:
        run = whole.begin(output, whole.Begun.model_validate(given | {"suite": suite or "practice"}), urls, console())
    return run.record(name) if name else run.all()


@app.command()
def bless(run: Annotated[Path, typer.Argument(help="folder of an equivalence run")]) -> int:
    """Makes the default arms of a run the golden ones, and says what changes."""
    from validate.equivalence import whole
    from validate.report.console import console

    return whole.bless(run, console())


def main() -> None:
    """Runs the command line; a person's errors become one line, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        code = _refuse(str(error))
    except typer.TyperException as error:  # an unknown option, a value out of range
        code = _refuse(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is kept: once more would only show where Python cleans up
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print("interrupted", file=sys.stderr)
        code = 130
    except Exception:  # Python would end with 1, which is FAIL
        traceback.print_exc()
        code = 3
    sys.exit(code)


def _refuse(message: str) -> int:
    if message:  # empty where no command was given: the help is printed then
        print("error:", "\n".join(" ".join(line.split()) for line in message.strip().splitlines()), file=sys.stderr)
    return 3


def _over_ranks(folder: Path, given: dict[str, object], out: "Console") -> int:
    """One of torchrun's processes: rank 0 keeps the record, the others do what it says."""
    from validate.numerics import over_ranks, session, together
    from validate.paths import group
    from validate.records import writer

    try:
        together_with = group.current()
        assert together_with is not None
        if together_with.rank > 0:
            together.end(together.follow(together_with))
        try:
            if together_with.refused:
                raise InputError(together_with.refused)
            _resumable(folder, given)
            current = session.resume(folder, None, out, keep_errors=together_with.restarted)
            chosen = over_ranks.wanted(current, together_with)
        except InputError as error:
            together.refuse(together_with, str(error))
            raise
        try:
            with writer.locked(folder):  # whoever judges the whole seals it
                code = over_ranks.judge_together(current, together_with, chosen)
            together.end(code)
        except InputError as error:  # the disk is full, say
            together_with.refuse(str(error))
            raise
    except group.Parted as error:
        _refuse(str(error))
        together.leave()


def _dry_run(given: dict[str, object], out: "Console") -> int:
    from validate.numerics import session
    from validate.numerics.dry_run import dry_run
    from validate.records.model import Arguments

    named = {name: value for name, value in given.items() if value is not None}
    arguments = Arguments.model_validate({"seeds": 1} | named)
    return dry_run(arguments, session.profile_of(arguments.profile, arguments.seeds if "seeds" in named else None), out)


def _resumable(run: Path, given: dict[str, object]) -> None:
    """InputError where a run is not one to continue, or not with these arguments."""
    from validate.records import folder

    recorded = folder.read_manifest(run).arguments.model_dump()
    if recorded["mode"] == "bench":
        raise InputError(f"cannot resume {run}: it records bench, which is run again as a whole")
    for name, value in given.items():
        if value is not None and value != recorded[name]:
            raise InputError(f"cannot resume {run} with another {name}: it was run with {recorded[name]}, not {value}")
