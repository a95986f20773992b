"""The lm-eval task class of all benchmarks."""

from collections.abc import Callable
from typing import Any

from datasets import Dataset, concatenate_datasets
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from evals.data.sources import SOURCES
from evals.grading import aime25, gpqa, gsm8k, mrcr
from evals.grading.response import Grade, Response
from evals.tasks.documents import Document, documents

GRADERS: dict[str, Callable[[Response, Document], Grade]] = {
    "aime25": lambda response, document: aime25.grade(response, document["gold"]),
    "gpqa_diamond": lambda response, document: gpqa.grade(response, document["gold"]),
    "gsm8k": lambda response, document: gsm8k.grade(response, document["gold"]),
    "mrcr_openai": lambda response, document: mrcr.grade_openai(response, document["gold"], document["prefix"]),
    "mrcr_v2": lambda response, document: mrcr.grade_deepmind(response, document["gold"], document["prefix"]),
}

TOGETHER = 32  # documents: Arrow refuses 2 GiB of text at once, all of MRCR has more, and a document of 8 million tokens 36 MB


def grade(response: Response, document: Document) -> Grade:
    """What a response to a document is worth."""
    return GRADERS[document["benchmark"]](response, document)


def dataset(benchmark: str, repeats: int, data: str | None = None, **_: Any) -> dict[str, Dataset]:
    """lm-eval's ``custom_dataset``. Its arguments are the YAML's metadata and what ``--metadata`` adds: ``data``, ``repeats``."""
    made = documents(SOURCES[benchmark], data, repeats)
    parts = [Dataset.from_list(made[start : start + TOGETHER]) for start in range(0, len(made), TOGETHER)]
    return {"test": concatenate_datasets(parts)}


def process_results(document: Document, results: list[str]) -> dict[str, float]:
    """The scores of the final content. lm-eval says nothing of how a response ended: what was cut off is graded as it stands."""
    return dict(grade(Response(results[0]), document).scores)


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
