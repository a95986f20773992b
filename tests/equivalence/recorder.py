"""Stands in for ``python -m validate record``: copies an arm that was prepared, or fails as it is told to.

In the folder that $PREPARED names lie the arms by name, ``<arm>.trouble`` with what is to go wrong, and ``calls``, to which every
recording adds its arm, its arguments and which others ran at its side.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from validate.records import arm_folder, folder


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("arm_set")
    for option in ("--arm", "--output", "--resume", "--force-from", "-k"):
        parser.add_argument(option)
    asked = parser.parse_args()
    prepared = Path(os.environ["PREPARED"])
    running = prepared / f"{asked.arm}.running"
    running.touch()
    try:
        return record(asked, prepared)
    finally:
        running.unlink()


def record(asked: argparse.Namespace, prepared: Path) -> int:
    whole = arm_folder.read(prepared / asked.arm)
    trouble = prepared / f"{asked.arm}.trouble"
    what = trouble.read_text() if trouble.exists() else ""
    if what == "meets":
        (prepared / f"{asked.arm}.met").touch()  # it stays: the other may look when this one has ended
        wait_for(lambda: len(beside(asked.arm, prepared)) > 0)
    with (prepared / "calls").open("a") as calls:
        given = {name: value for name, value in vars(asked).items() if value is not None and name not in ("arm", "output")}
        calls.write(json.dumps([asked.arm, given, beside(asked.arm, prepared)]) + "\n")
    there = Path(asked.resume) if asked.resume else folder.create(Path(asked.output), f"toy-{asked.arm}")
    arm_folder.write_manifest(there, whole.manifest.model_copy(update={"end": None}))
    half = len(whole.transcripts) // 2
    arm_folder.keep(there, whole.transcripts[:half])
    if what == "dies":
        print("what vLLM says\nerror: the engine died; 5 requests are kept, go on with: python\nat exit", file=sys.stderr)
        return 3
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "waits":
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            (prepared / f"{asked.arm}.waits").touch()
            wait_for(lambda: False)
        except KeyboardInterrupt:
            (prepared / f"{asked.arm}.told").touch()
            return 130
    arm_folder.append(there, whole.transcripts[half:])
    assert whole.steps is not None
    arm_folder.write_steps(there, whole.steps)
    arm_folder.write_manifest(there, whole.manifest)
    print(f"{len(whole.transcripts)} requests recorded")
    return 3 if what == "proves nothing" else 0


def beside(arm: str, prepared: Path) -> list[str]:
    return sorted({path.stem for kind in ("running", "met") for path in prepared.glob(f"*.{kind}")} - {arm})


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            sys.exit("error: waited in vain")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
