"""The lm-eval task class of all benchmarks."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from datasets import Dataset, DatasetInfo, concatenate_datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from evals.data.sources import SOURCES
from evals.grading import aime25, gpqa, gsm8k, mrcr
from evals.grading.response import Grade, Response
from evals.tasks import practice as practices
from evals.tasks.documents import Document, Documents, documents

GRADERS: dict[str, Callable[[Response, Document], Grade]] = {
    "aime25": lambda response, document: aime25.grade(response, document["gold"]),
    "gpqa_diamond": lambda response, document: gpqa.grade(response, document["gold"]),
    "gsm8k": lambda response, document: gsm8k.grade(response, document["gold"]),
    "mrcr_openai": lambda response, document: mrcr.grade_openai(response, document["gold"], document["prefix"]),
    "mrcr_v2": lambda response, document: mrcr.grade_deepmind(response, document["gold"], document["prefix"]),
}
GRADERS |= {
    "practice_integers": GRADERS["aime25"],
    "practice_choices": GRADERS["gpqa_diamond"],
    "practice_stories": GRADERS["gsm8k"],
    "practice_needles": GRADERS["mrcr_openai"],
}
TOGETHER = 32  # documents: Arrow refuses 2 GiB of text at once, all of MRCR has more, and a document of 8 million tokens 36 MB
DIGESTED = ("item", "messages", "gold", "prefix", "stratum", "permutation")  # of a document: what both arms are asked


class Scored(str):
    """Stands for a response that is graded already: its text need not be kept, and how it ended has been seen."""

    scores: Mapping[str, float]


def scored(scores: Mapping[str, float]) -> Scored:
    """An empty text with these scores."""
    made = Scored()
    made.scores = scores
    return made


def grade(response: Response, document: Document) -> Grade:
    """What a response to a document is worth."""
    return GRADERS[document["benchmark"]](response, document)


def dataset(
    benchmark: str, repeats: int, data: str | None = None, items: int | None = None, again: bool = False, **_: Any
) -> dict[str, Dataset]:
    """lm-eval's ``custom_dataset``. Its arguments are the YAML's metadata and what ``--metadata`` adds."""
    return {"test": _dataset(documents(SOURCES[benchmark], data, repeats, items, again))}


def practice(benchmark: str, items: int, repeats: int, seed: int, again: bool = False, **_: Any) -> dict[str, Dataset]:
    """The same of a practice task."""
    return {"test": _dataset(practices.documents(benchmark, items, repeats, seed, again))}


def _dataset(made: Documents) -> Dataset:
    """lm-eval hands on nothing else than a dataset: what the rows are is in its description."""
    parts = [Dataset.from_list(made[start : start + TOGETHER]) for start in range(0, len(made), TOGETHER)]
    return concatenate_datasets(parts, info=DatasetInfo(description=json.dumps(said(made))))


def said(made: Documents) -> dict[str, Any]:
    """``data`` in words, ``digest`` of what is asked, and whether the text is ``secret``."""
    digest = hashlib.sha256()
    for document in made:
        digest.update(json.dumps([document[field] for field in DIGESTED], ensure_ascii=False).encode())
    return {"data": made.data, "digest": digest.hexdigest()[:16], "secret": made.secret}


def process_results(document: Document, results: list[str]) -> dict[str, float]:
    """The scores of the final content. lm-eval says nothing of how a response ended: what was cut off is graded as it stands."""
    (found,) = results
    known: Mapping[str, float] | None = getattr(found, "scores", None)  # lm-eval has this file as another module, and its classes
    return dict(grade(Response(found), document).scores if known is None else known)


class Seeded(ConfigurableTask):
    """Documents are conversations, and each request has its document's seed."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config={name: value for name, value in config.items() if name != "class"})

    def fewshot_context(self, doc: Document, num_fewshot: int, *_: Any, **named: Any) -> str:
        """The conversation through the chat template, or, without one, its turns below each other."""
        if named.get("apply_chat_template") and named.get("chat_template"):
            return str(named["chat_template"](doc["messages"]))
        return "\n\n".join(turn["content"] for turn in doc["messages"])

    def construct_requests(self, doc: Document, ctx: str, **named: Any) -> list[Instance] | Instance:
        """As lm-eval makes them, with the seed beside the other arguments of generation."""
        made = super().construct_requests(doc, ctx, **named)
        assert isinstance(made, Instance)
        context, arguments = made.arguments
        made.arguments = (context, {**arguments, "seed": doc["seed"]})
        return made
