"""Small steps in the layers' place: each notes that it ran, leaves a record as layers do, and ends as it is told."""

from pathlib import Path
from typing import Any

LAYER = """
import json, pathlib, signal, sys, time
what, *given = sys.argv[1:]
verdict, *how = what.split(",")
places = pathlib.Path(given[given.index("--output") + 1]) if "--output" in given else None
record = places / "record" if places else pathlib.Path(given[given.index("--resume") + 1])
with open("ran", "a") as ran:
    ran.write(json.dumps([what, given]) + chr(10))
if "refuses" in how:
    print("error: there is no server at http://x:1", file=sys.stderr)
    sys.exit(3)
if "crashes" in how:
    raise RuntimeError("no layer says this")
if "silent" in how:
    sys.exit(0)
record.mkdir(exist_ok=True)
(record / "begun.json").write_text("{}")
if "crashes-late" in how:
    raise RuntimeError("no layer says this")
if "slow" in how and places:
    print("begun", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(1.5)
        (record / "kept").write_text("")
        sys.exit(130)
if "deaf" in how:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)
if "arms" in how and not ((record / "arm").exists() and "--specialized-url" in given):
    (record / "arm").write_text("")
    print("specialized not recorded yet")
    sys.exit(3)
codes = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2, "INVALID": 3}
if "huge" in how:
    for n in range(100):
        print(("`" * 50 + "# </details> | " + chr(27) + "[31m" + chr(0) + "é") * 1500)
    (record / "summary.md").write_text(("```" + chr(10) + "| é <script> ") * 700_000)
if verdict != "PASS":
    kind = "failure" if verdict == "FAIL" else "error"
    name, found = {
        "FAIL": ("kda/tp16-batch1 emulated-specialized", "out rounding 120.8 &gt; 1"),
        "INVALID": ("attestation", "12 of 80 steps ran specialized"),
        "INCONCLUSIVE": ("gsm8k", "9 repeats would decide it"),
    }[verdict]
    test = f'<testcase classname="kda" name="{name}"><{kind} type="{verdict}" message="{found}"/></testcase>'
    tests = test * (2000 if "huge" in how else 1)
    (record / "junit.xml").write_text(f'<testsuites><testsuite name="s"><testcase name="fine"/>{tests}</testsuite></testsuites>')
print(f"{verdict}  {record}")
sys.exit(codes[verdict])
"""


def step(name: str, what: str = "PASS", minutes: float = 1.0, **more: Any) -> dict[str, Any]:
    """A step that ends as ``what`` says: a verdict, and words of ``LAYER`` behind commas."""
    return {"name": name, "layer": "made up", "command": [what], "budget": minutes, "program": ["-c", LAYER], **more}


def profile(folder: Path, *steps: dict[str, Any], budget: float = 100.0) -> str:
    """A profile's file."""
    path = folder / "mine.toml"
    lines = ['description = "made up"', f"budget = {budget}"]
    for one in steps:
        lines.append("[[steps]]")
        lines += [f"{key} = {_toml(value)}" for key, value in one.items()]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f"'''{value}'''" if isinstance(value, str) else str(value)
