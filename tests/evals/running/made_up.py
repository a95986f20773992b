"""Data files in the benchmarks' forms, and suites that ask them."""

import json
from pathlib import Path
from typing import Any

from evals.data import pin
from evals.data.sources import GPQA

SECRET = "zyxomancy"  # in every text of the secret set
ROWS: dict[str, list[dict[str, Any]]] = {
    "aime25": [{"problem": f"What is {n}+1?", "answer": n + 1} for n in range(3)],
    "gsm8k": [{"question": f"What is {n}+2?", "answer": f"Well.\n#### {n + 2}"} for n in range(3)],
    "gpqa_diamond": [
        dict(zip(GPQA.columns, [f"Which {SECRET} is it, {n}?", *(f"{SECRET} {word}" for word in "abcd")], strict=True))
        for n in range(3)
    ],
    "mrcr_openai": [
        {
            "prompt": json.dumps(
                [
                    {"role": "user", "content": "Write a poem about owls."},
                    {"role": "assistant", "content": "Pale mist hides hill."},
                    {"role": "user", "content": f"Repeat it with aB3dE5gH7{n} before it."},
                ]
            ),
            "answer": f"aB3dE5gH7{n}Pale mist hides hill.",
            "random_string_to_prepend": f"aB3dE5gH7{n}",
            "n_needles": 2,
            "desired_msg_index": 1,
            "total_messages": 3,
        }
        for n in range(3)
    ],
}


def data(there: Path, *names: str) -> Path:
    """A folder with the sets of these names, pinned."""
    there.mkdir(parents=True, exist_ok=True)
    for name in names:
        write(there, name, ROWS[name])
        pin.pin(name, there, "made up")
    return there


def write(there: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (there / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def suite(file: Path, *tasks: str, repeats: int = 2, **more: Any) -> Path:
    """A suite of the stand-in's arms, of ``tasks`` such as ``gsm8k`` or, with further fields, ``practice_integers items=2``."""
    head = 'description = ""\narms = "cpu-bf16"\n' + "".join(f"{name} = {json.dumps(value)}\n" for name, value in more.items())
    text = head + "[engine]\nmax_num_batched_tokens = 8192\nenable_chunked_prefill = false\nenable_prefix_caching = false\n"
    for task in tasks:
        name, *fields = task.split()
        own = {"name": json.dumps(name), "repeats": repeats, "margin": 0.05, "budget": 200} | dict(f.split("=") for f in fields)
        text += "[[tasks]]\n" + "".join(f"{field} = {value}\n" for field, value in own.items())
    file.write_text(text)
    return file
