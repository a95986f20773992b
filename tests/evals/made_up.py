"""MRCR's two forms, made of practice conversations: the columns that the published files have, and nothing of their text."""

import csv
import json
from pathlib import Path
from typing import Any

from evals.practice import needles
from evals.practice.item import Item

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
FILE = "mrcr_v2p1_{needles}needle_{bin}_dynamic_fewshot_text_style_fast.csv"


def asked(item: Item) -> str:
    """The request whose texts are the needles."""
    return next(a.content for a, b in zip(item.messages[::2], item.messages[1::2], strict=False) if b.content in item.target)


def count(item: Item) -> int:
    return [turn.content for turn in item.messages].count(asked(item))


def openai(index: int, filler: str = "") -> dict[str, Any]:
    """A row of openai/mrcr. ``filler`` is a further turn's text."""
    item = needles.item(0, index)
    turns = [{"role": role, "content": content} for role, content in item.messages]
    if filler:
        turns[:0] = [{"role": "user", "content": "Write."}, {"role": "assistant", "content": filler}]
    return {
        "prompt": json.dumps(turns),
        "answer": item.target,
        "random_string_to_prepend": item.target[: needles.PREFIX],
        "n_needles": count(item),
        "desired_msg_index": next(n for n, turn in enumerate(turns) if turn["content"] == item.target[needles.PREFIX :]),
        "total_messages": len(turns),
    }


def deepmind(index: int, tokens: int = 8190, filler: str = "") -> dict[str, Any]:
    """A row of mrcr_v2: one text, of ``tokens`` tokens as the row says. Its random string has two characters more."""
    item = needles.item(0, index)
    *turns, question = item.messages
    prefix, text = item.target[: needles.PREFIX] + "xY", item.target[needles.PREFIX :]
    told = "\n\n".join(f"{role.capitalize()}: {content}" for role, content in turns)
    last = f"User: {question.content.replace(item.target[: needles.PREFIX], prefix)}\n\nAssistant:"
    return {
        "queries": f'Examples, with a "comma", and:\n{filler}\n\n{told}\n\n{last}',
        "answer": prefix + text,
        "context_len": tokens,
        "answer_token_count": 9,
        "view_ops": last,
        "num_relevant": count(item),
        "answer_context_position": "(1, 9)",
    }


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def deepmind_files(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Three files of a set: the rows by file, in the order in which they are read."""
    made = {
        FILE.format(needles=2, bin="in_(4096,8192)"): [deepmind(n, 8100 + n) for n in range(3)],
        FILE.format(needles=2, bin="in_(16384,32768)"): [deepmind(n, 32700 + n) for n in range(3, 5)],
        FILE.format(needles=8, bin="in_(8192,16384)"): [deepmind(n, 16380 + n) for n in range(5, 7)],
    }
    for name in sorted(made, reverse=True):
        write(folder / name, made[name])
    return made
