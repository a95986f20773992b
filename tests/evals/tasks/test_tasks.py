"""The YAML files as lm-eval loads them, on made-up data of each benchmark's form."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.data import pin
from evals.data.sources import GPQA, SOURCES
from evals.tasks import seeds
from validate.errors import InputError

lm_eval = pytest.importorskip("lm_eval")
from lm_eval.api.model import LM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

from evals.tasks import documents  # noqa: E402
from tests.evals import made_up  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of lm-eval and what it imports
TASKS = Path(documents.__file__).parent
REPEATS = {"aime25": 32, "gpqa_diamond": 16, "gsm8k": 1, "mrcr_openai": 1, "mrcr_v2": 1}
TURNS = [
    {"role": "user", "content": "Write a poem."},
    {"role": "assistant", "content": "Once."},
    {"role": "user", "content": "Repeat it."},
]
ROWS: dict[str, list[dict[str, Any]]] = {
    "aime25": [{"problem": f"Find {n}.", "answer": n} for n in (7, 70, 700)],
    "gsm8k": [{"question": f"What is {n}?", "answer": f"Well.\n#### {n}"} for n in (1, 1234)],
    "gpqa_diamond": [dict(zip(GPQA.columns, (f"Which, {n}?", "yes", "no", "[maybe]", "never"), strict=True)) for n in range(3)],
    "mrcr_openai": [
        {
            "prompt": json.dumps(TURNS),
            "answer": "aB3dE5gH7jOnce.",
            "random_string_to_prepend": "aB3dE5gH7j",
            "n_needles": needles,
            "desired_msg_index": 1,
            "total_messages": 3,
        }
        for needles in (2, 4, 8)
    ],
    "mrcr_v2": [made_up.deepmind(n) for n in range(4)],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, rows in ROWS.items():
        if name == "mrcr_v2":
            made_up.write(folder / made_up.FILE.format(needles=8, bin="upto_128K"), rows)
        else:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pin.pin(name, folder, "made up")
    return folder


@pytest.fixture(scope="module")
def tasks(data: Path) -> dict[str, Any]:
    names = [name + kind for name in SOURCES for kind in ("", "_greedy")]
    manager = TaskManager(include_path=str(TASKS), metadata={"data": str(data)})
    return {name: manager.load_task_or_group([name])[name] for name in names}


def docs(task: Any) -> list[dict[str, Any]]:
    return list(task.test_docs())


@pytest.mark.parametrize("name", list(SOURCES))
def test_every_item_is_asked_as_often_as_the_protocol_says_with_its_sampling(tasks: dict[str, Any], name: str) -> None:
    for task, repeats, temperature in ((tasks[name], REPEATS[name], 1.0), (tasks[f"{name}_greedy"], 1, 0.0)):
        assert Counter(d["item"] for d in docs(task)) == dict.fromkeys({d["item"] for d in docs(task)}, repeats)
        assert len({d["item"] for d in docs(task)}) == len(ROWS[name])
        arguments = task.config.generation_kwargs
        assert arguments["temperature"] == temperature
        assert arguments.get("top_p") == (0.95 if temperature else None)
        assert arguments["chat_template_kwargs"] == {"thinking": True, "preserve_thinking": True, "thinking_effort": "max"}
        assert arguments["max_gen_toks"] >= 16384
        assert arguments["until"] == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("aime25", {"answer": "seven"}),
        ("gsm8k", {"answer": 7}),
        ("mrcr_openai", {"prompt": "no list"}),
        ("mrcr_openai", {"prompt": "[{}]"}),
        ("mrcr_openai", {"answer": "without its string"}),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, name: str, change: dict[str, Any]) -> None:
    rows = [ROWS[name][0] | change]
    (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pin.pin(name, tmp_path, "made up")
    with pytest.raises(InputError, match=f"{name}: row 1 does not have the benchmark's form"):
        documents.documents(SOURCES[name], str(tmp_path), 1)


def test_repeats_come_one_after_the_other(tasks: dict[str, Any]) -> None:
    assert [d["repeat"] for d in docs(tasks["aime25"])] == sorted([*range(32)] * 3)


def payloads(task: Any) -> list[dict[str, Any]]:
    """What lm-eval's model for servers sends."""
    from lm_eval.models.openai_completions import LocalChatCompletion

    model = LocalChatCompletion(model="k3", base_url="http://nowhere/v1/chat/completions")
    task.build_all_requests(
        rank=0, world_size=1, apply_chat_template=True, chat_template=lambda messages, **_: json.dumps(messages)
    )
    return [
        model._create_payload(json.loads(request.args[0]), generate=True, gen_kwargs=dict(request.args[1]), seed=1234, eos=None)
        for request in task.instances
    ]


def test_each_request_has_a_seed_of_its_own_through_lm_evals_own_model(tasks: dict[str, Any]) -> None:
    sent = payloads(tasks["aime25"])
    assert len({payload["seed"] for payload in sent}) == len(sent) == 96
    assert [payload["seed"] for payload in sent] == [d["seed"] for d in docs(tasks["aime25"])]
    assert sent[0]["seed"] == seeds.seed("aime25", "0", 0)


def test_lm_evals_own_repeats_are_copies() -> None:
    """The trap: a stock task of three repeats sends one seed three times."""
    from lm_eval.api.task import ConfigurableTask

    rows = [{"q": "a"}]
    from datasets import Dataset

    task = ConfigurableTask(
        config={
            "task": "stock",
            "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{q}}",
            "doc_to_target": "a",
            "repeats": 3,
            "generation_kwargs": {"until": [], "temperature": 1.0},
        }
    )
    sent = payloads(task)
    assert {payload["seed"] for payload in sent} == {1234}
    assert all(request.repeats == 3 for request in task.instances)


def test_a_conversation_is_sent_as_one(tasks: dict[str, Any]) -> None:
    assert payloads(tasks["mrcr_openai"])[0]["messages"] == TURNS


def test_the_right_option_stands_at_the_letter_that_is_gold(tasks: dict[str, Any]) -> None:
    options = ["yes", "no", "[maybe]", "never"]
    made = docs(tasks["gpqa_diamond"])
    for document in made:
        lines = document["messages"][0]["content"].split("\n\n")[1].split("\n")
        assert lines == [f"{letter}) {options[option]}" for letter, option in zip("ABCD", document["permutation"], strict=True)]
        assert lines["ABCD".index(document["gold"])][3:] == "yes"
    assert len({tuple(d["permutation"]) for d in made}) > 10


def test_permutations_are_uniform() -> None:
    count = Counter(tuple(seeds.permutation("gpqa_diamond", f"{item}", repeat, 4)) for item in range(300) for repeat in range(16))
    assert len(count) == 24
    expected = 4800 / 24
    assert sum((n - expected) ** 2 / expected for n in count.values()) < 49.7  # chi-squared, 23 degrees, 0.001


def test_items_of_a_secret_set_are_named_by_digests(tasks: dict[str, Any]) -> None:
    assert all(len(d["item"]) == 16 and int(d["item"], 16) >= 0 for d in docs(tasks["gpqa_diamond"]))


class Answers(LM):
    """Gives the gold answer to all but the first request."""

    def __init__(self, write) -> None:
        super().__init__()
        self.write = write

    def generate_until(self, requests, disable_tqdm: bool = False):
        return ["" if n == 0 else self.write(request.doc) for n, request in enumerate(requests)]

    def loglikelihood(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


WRITES = {
    "aime25": lambda d: rf"So \boxed{{{d['gold']}}}",
    "gsm8k": lambda d: f"So.\n#### {d['gold']}",
    "gpqa_diamond": lambda d: f"Answer: {d['gold']}",
    "mrcr_openai": lambda d: d["gold"],
    "mrcr_v2": lambda d: f"Here it is: {d['gold']}",
}


@pytest.mark.parametrize("name", list(SOURCES))
def test_lm_eval_grades_with_the_projects_rules(tasks: dict[str, Any], name: str) -> None:
    task = tasks[f"{name}_greedy"]
    results = lm_eval.simple_evaluate(model=Answers(WRITES[name]), tasks=[task], bootstrap_iters=0)
    scores = [
        value
        for key, value in results["results"][f"{name}_greedy"].items()
        if key.split(",")[0] in ("exact", "flexible", "strict", "ratio")
    ]
    count = len(ROWS[name])
    right = pytest.approx((count - 1) / count)
    assert scores == {"gsm8k": [right, right], "mrcr_v2": [right, 0]}.get(name, [right])


def test_documents_of_more_text_than_arrow_takes_at_once_are_put_together(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evals.tasks import task

    monkeypatch.setattr(task, "TOGETHER", 2)
    made = task.dataset("mrcr_v2", 3, str(data))["test"]
    assert list(made) == documents.documents(SOURCES["mrcr_v2"], str(data), 3)
