"""What is asked, of every item and repeat: lm-eval's documents.

Fields of a document: ``benchmark``, ``item`` (its name in every record), ``repeat`` from 0, ``seed``, ``messages`` (role and
content), ``gold``, ``prefix`` (MRCR's random string), ``stratum`` (what results are grouped by), ``length`` (MRCR: tokens by the
tokenizer that lengths are made by, 0 if not known) and ``permutation`` (GPQA: which option stands at each letter, 0 being the
right one). A document holds the data set's text, also GPQA's: it goes to the model and into no record.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from evals.data import o200k, sources
from evals.data.loading import Loaded, Row, load
from evals.data.sources import Source
from evals.grading.gpqa import LETTERS
from evals.tasks import lengths, seeds
from validate.errors import InputError

Document = dict[str, Any]
HASH = 12  # characters of DeepMind's random strings (eval_hub, mrcr_v2/run_evaluation.py at 67b7fd2)
_log = logging.getLogger(__name__)
# What is asked for: stepwise and boxed (AIME), a last line with the letter (GPQA), ``####`` (a chat model has to be told).
AIME_TASK = "Please reason step by step, and put your final answer within \\boxed{}."
GPQA_TASK = "Think step by step before answering. The last line of your response must be of the form 'Answer: LETTER'."
GSM8K_TASK = "Reason step by step. End your response with a line of the form '#### N', N being the numeric answer alone."


class Documents(list[Document]):
    """All of a benchmark. ``data`` says what its rows are; ``secret``: their text may be in no record."""

    def __init__(self, made: Iterable[Document], data: str, secret: bool) -> None:
        super().__init__(made)
        self.data, self.secret = data, secret


def documents(source: Source, data: str | None, repeats: int, items: int | None = None, again: bool = False) -> Documents:
    """Of the first ``items`` rows, repeat by repeat, so that an interrupted run has whole repeats. ``again``: ``seeds.seed``."""
    loaded = load(source, Path(data) if data else None)
    made = [_made(source, place, row) for place, row in enumerate(loaded.rows[:items], 1)]
    if source.name == sources.MRCR_OPENAI.name:
        _measure(made, Path(data) if data else None)
    named = dict(zip(names(loaded), made, strict=False))
    return Documents(asked(source.name, named, repeats, again), loaded.identity, source.secret)


def asked(benchmark: str, items: Mapping[str, Document], repeats: int, again: bool) -> list[Document]:
    """Every item, by its name, as often as there are repeats."""
    return [_document(benchmark, name, repeat, again, fields) for repeat in range(repeats) for name, fields in items.items()]


def _made(source: Source, place: int, row: Row) -> Document:
    try:
        return MAKERS[source.name](row)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{source.name}: row {place} does not have the benchmark's form") from None


def _measure(made: list[Document], data: Path | None) -> None:
    """Sorts OpenAI's items into its lengths, where they can be counted."""
    encoding = o200k.encoding(data, download=data is None)
    if encoding is None:
        _log.warning(
            f"mrcr_openai: results are by needles alone, not by length: there is no vocabulary of {o200k.NAME}. "
            f"Put {o200k.ADDRESS} beside the data (--data DIR), or name tiktoken's folder that has it (TIKTOKEN_CACHE_DIR)"
        )
        counted = [0] * len(made)
    else:
        counted = o200k.lengths(encoding, ([turn["content"] for turn in one["messages"]] + [one["gold"]] for one in made))
    for fields, length in zip(made, counted, strict=True):
        stratum = lengths.stratum(fields.pop("needles"), length, lengths.DOUBLINGS_OPENAI)
        fields |= {"length": length, "stratum": stratum}


def names(loaded: Loaded) -> list[str]:
    """Of the items: the place in the set; for a secret set the row's digest alone."""
    if loaded.source.secret:
        return list(loaded.digests)
    return [f"{place}" for place in range(len(loaded.rows))]


def _document(benchmark: str, item: str, repeat: int, again: bool, fields: Document) -> Document:
    document: Document = {"prefix": "", "stratum": "", "length": 0, "permutation": [], **fields}
    document |= {"benchmark": benchmark, "item": item, "repeat": repeat, "seed": seeds.seed(benchmark, item, repeat, again)}
    if options := document.pop("options", None):
        order = seeds.permutation(benchmark, item, repeat, len(options))
        lines = "\n".join(f"{letter}) {options[option]}" for letter, option in zip(LETTERS, order, strict=True))
        question = document.pop("question")
        document["messages"] = _asked(f"{question}\n\n{lines}\n\n{GPQA_TASK}")
        document |= {"permutation": order, "gold": LETTERS[order.index(0)]}
    return document


def _asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _aime(row: Row) -> Document:
    return {"messages": _asked(f"{row['problem']}\n{AIME_TASK}"), "gold": str(int(row["answer"]))}


def _gsm8k(row: Row) -> Document:
    return {"messages": _asked(f"{row['question']}\n\n{GSM8K_TASK}"), "gold": row["answer"].rpartition("####")[2].strip()}


def _gpqa(row: Row) -> Document:
    """Option texts are given as they are: what has been cleaned out of them has damaged formulas before."""
    return {"question": row["Question"], "options": [row[column] for column in sources.GPQA.columns[1:]]}


def _mrcr_openai(row: Row) -> Document:
    messages = [{"role": turn["role"], "content": turn["content"]} for turn in json.loads(row["prompt"])]
    prefix, gold = row["random_string_to_prepend"], row["answer"]
    if not gold.startswith(prefix):
        raise ValueError("the answer does not begin with its random string")
    return {"messages": messages, "gold": gold, "prefix": prefix, "needles": int(row["n_needles"])}


def _mrcr_v2(row: Row) -> Document:
    """One text: examples, the conversation and what is asked. The answer's first 12 characters are the random string."""
    gold = row["answer"].strip()
    prefix = gold[:HASH]
    if len(prefix) < HASH or prefix not in row["queries"]:
        raise ValueError("what is asked does not name the answer's random string")
    length = int(row["context_len"])
    stratum = lengths.stratum(int(row["num_relevant"]), length, lengths.DOUBLINGS_DEEPMIND)
    return {"messages": _asked(row["queries"]), "gold": gold, "prefix": prefix, "length": length, "stratum": stratum}


MAKERS: dict[str, Callable[[Row], Document]] = {
    "aime25": _aime,
    "gsm8k": _gsm8k,
    "gpqa_diamond": _gpqa,
    "mrcr_openai": _mrcr_openai,
    "mrcr_v2": _mrcr_v2,
}
