"""One trial in a process of its own: a kernel that polls may poll for ever, and what it takes with it is this process.

``python -m validate.races.gpu.child ORDER OUT``, two files, writes a line of JSON to OUT for each attempt as it ends. The trial's
first launch is its kernel's first, in a fresh process. Copies of vLLM's files go beside OUT.
"""

import faulthandler
import os
import sys
from collections.abc import Callable
from pathlib import Path

from validate.processes import end_with_parent
from validate.races.gpu.record import Attempt, Trial
from validate.records.model import Record

SOUND, CONTROL, UNDISTURBED = "sound", "control", "undisturbed"


class Order(Record):
    """What a child is asked for."""

    trial: Trial
    vllm_src: str
    repeats: int
    dump_after: float  # seconds: it says then where it is


class Part(Record):
    """One line of its answer."""

    part: str
    attempt: Attempt


def _main(order_file: str, out_file: str) -> None:
    end_with_parent()
    # A kernel that is loaded while another polls waits for it, and so for ever: whatever is launched beside one has been launched
    # before. With all of torch's loaded instead, a trial took 20 to 29 s where 8 ran at once on an H200, 38 to 51 s where 16 did;
    # compute-sanitizer's sessions, which load lazily, took 7 to 11 s.
    os.environ["CUDA_MODULE_LOADING"] = "LAZY"
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"  # streams that share a hardware queue wait for each other, too
    order = Order.model_validate_json(Path(order_file).read_text(encoding="utf-8"))
    faulthandler.dump_traceback_later(order.dump_after)
    out = Path(out_file)

    def told(part: str, attempt: Attempt) -> None:
        with out.open("a", encoding="utf-8") as opened:
            opened.write(Part(part=part, attempt=attempt).model_dump_json() + "\n")
        if attempt.hung or attempt.error is not None:
            os._exit(0)  # the GPU is lost to this process, and an ordinary exit would wait for it

    _try(order, out.with_suffix(".copies"), told)
    os._exit(0)


def _try(order: Order, copies: Path, told: Callable[[str, Attempt], None]) -> None:
    import torch

    from validate.paths.emulated.mailbox import arm
    from validate.paths.vllm import source
    from validate.paths.vllm.edits import Change, copied
    from validate.races.gpu import trial as trials
    from validate.races.gpu.adversaries import ADVERSARIES
    from validate.races.gpu.adversaries.adversary import Undisturbed
    from validate.races.gpu.bench import Bench
    from validate.races.gpu.bound import Bound, contents
    from validate.races.gpu.faults import FAULTS
    from validate.races.gpu.kernels import KERNELS
    from validate.races.gpu.stalls import STALLS

    torch.set_num_threads(1)
    trial, root = order.trial, Path(order.vllm_src)
    stalls = [STALLS[trial.stall].change] if trial.stall else []
    fault = FAULTS[trial.fault].change
    bench = Bench()

    def bound(name: str, *changes: Change) -> Bound:
        where = copied(root, copies / name, *changes) if changes else root
        made = KERNELS[trial.kernel](source.opened(where), bench.device, **trial.sizes)
        bench.expect(made)
        made.refresh(0)
        if made.mailbox is not None:
            arm(made.mailbox)
        return made

    subject = bound(SOUND, *stalls)
    samples = [contents(subject, 10 * n) for n in range(trials.PAYLOADS)]
    if subject.mailbox is not None:
        arm(subject.mailbox)
    original = bound("original") if stalls else subject
    right: list[trials.Result] = []

    def wanted() -> list[trials.Result]:
        if not right:
            right.extend(trials.expected(bench, original, samples))
        return right

    make = ADVERSARIES[trial.adversary]
    told(SOUND, trials.repeated(bench, make(bench, subject), samples, order.repeats, wanted))
    control = bound(CONTROL, *stalls, fault)
    told(CONTROL, trials.repeated(bench, make(bench, control), samples, order.repeats, wanted))
    alone = bound(UNDISTURBED, fault) if stalls else control
    told(UNDISTURBED, trials.repeated(bench, Undisturbed(bench, alone), samples, order.repeats, wanted))


if __name__ == "__main__":
    _main(*sys.argv[1:])
