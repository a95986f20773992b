"""An arm in lm-eval's own formats: ``results.json`` and a ``samples_<task>.jsonl`` each, as lm-eval 0.4.13 writes them.

Every repeat is a sample. Of a set whose text must not be published there are item, hashes, permutation and letters.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.loggers.evaluation_tracker import GeneralConfigTracker
from lm_eval.utils import handle_non_serializable, hash_string

from evals.records import folder as records
from evals.records.model import Answered
from evals.running.planning import Planned
from validate.records.folder import write

RESULTS = "results.json"
TOLD = ("benchmark", "item", "repeat", "seed", "permutation", "gold", "stratum")  # of a secret set's document
Sample = dict[str, Any]


def write_files(there: Path, results: dict[str, Any], tasks: list[Planned], tracker: GeneralConfigTracker) -> None:
    """All of them. ``results``: lm-eval's, as ``simple_evaluate`` returns them."""
    found = {one.key: one for one in records.responses(there)}
    hashes = {}
    for one in tasks:
        made = list(samples(one, found))
        write(there, f"samples_{one.plan.name}.jsonl", "".join(_json(sample) + "\n" for sample in made))
        hashes[one.plan.name] = hash_string("".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in made))
    tracker.log_end_time()
    write(there, RESULTS, _json(results | {"task_hashes": hashes} | asdict(tracker), indent=2) + "\n")


def samples(of: Planned, found: dict[tuple[str, str, int], Answered]) -> Iterator[Sample]:
    """Of one task, in the order of its documents."""
    for instance in of.task.instances:
        document = instance.doc
        yield _sample(instance, found[of.plan.name, document["item"], document["repeat"]], of.plan.secret)


def _sample(instance: Instance, one: Answered, secret: bool) -> Sample:
    document, (prompt, generation) = instance.doc, instance.arguments
    said = (one.answer or "") if secret else (one.content or "")
    return {
        "doc_id": instance.doc_id,
        "doc": {field: document[field] for field in TOLD} if secret else document,
        "target": document["gold"],
        "arguments": {"gen_args_0": {"arg_0": "" if secret else prompt, "arg_1": generation}},
        "resps": [[said]],
        "filtered_resps": [said],
        "filter": "none",
        "metrics": list(one.scores),
        "doc_hash": hash_string(_json(document, indent=2)),
        "prompt_hash": hash_string(prompt),
        "target_hash": hash_string(document["gold"]),
        **one.scores,
    }


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=handle_non_serializable, ensure_ascii=False)
