"""An arm recorded from an engine double through lm-eval: what is kept, what is asked again, what is no proof, what is secret."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

from evals.grading.response import Outcome
from evals.records import folder as records
from evals.running import arm, recording, suite
from evals.running.asking import Account, Reply
from tests.evals.running import made_up
from tests.evals.running.doubles import Double
from validate.equivalence.arm import Name
from validate.equivalence.engine import Lost
from validate.errors import InputError
from validate.records import provenance
from validate.report.console import console

pytestmark = pytest.mark.filterwarnings("ignore")  # of lm-eval and what it imports
PRACTICE = ("practice_integers items=4", "practice_choices items=3")
SETS = ("aime25", "gsm8k", "gpqa_diamond", "mrcr_openai")


def asked(there: Path, *tasks: str, name: Name = "default", data: Path | None = None, **more: Any) -> arm.Asked:
    there.mkdir(parents=True, exist_ok=True)
    file = made_up.suite(there / "mine.toml", *tasks, **more)
    return arm.Asked(str(file), suite.load(str(file)), name, there / name, "the command", data=data)


def record(of: arm.Asked, double: Double | None = None) -> Double:
    made = double or Double()
    assert arm.record(of, console(), made) == 0
    return made


def lines(there: Path) -> list[dict[str, Any]]:
    return [one.model_dump() for one in records.responses(there)]


def test_every_item_and_repeat_is_asked_once_and_graded(tmp_path: Path) -> None:
    of = asked(tmp_path, *PRACTICE)
    double = record(of)
    found = list(records.responses(of.there))
    assert Counter(one.key for one in found) == Counter(question.key for question in double.asked)
    assert Counter(one.task for one in found) == {"practice_integers": 8, "practice_choices": 6}
    assert all(one.outcome is Outcome.SCORED and one.tokens == 7 and one.content and one.reasoning for one in found)
    assert {one.scores["exact"] for one in found} == {0.0, 1.0}
    steps, manifest = records.steps(of.there), records.manifest(of.there)
    assert manifest.end
    assert manifest.planned == 14
    assert steps
    assert {task: sum(s.count for s in counted) for task, counted in steps.by_scene.items()} == {
        "practice_integers": 40,
        "practice_choices": 30,
    }


def test_seeds_differ_between_repeats_and_are_those_of_the_other_path(tmp_path: Path) -> None:
    arms: dict[Name, Double] = {
        name: record(asked(tmp_path, *PRACTICE, name=name), Double(path="specialized" if name == "specialized" else "default"))
        for name in ("default", "default-again", "specialized")
    }
    seeds = {name: {question.key: question.seed for question in double.asked} for name, double in arms.items()}
    assert seeds["default"] == seeds["specialized"]
    assert len({*seeds["default"].values(), *seeds["default-again"].values()}) == 2 * 14
    for task in ("practice_integers", "practice_choices"):
        order = {name: [q.key for q in double.asked if q.task == task] for name, double in arms.items()}
        assert order["default-again"] == order["default"][::-1]
    plans = [records.manifest(tmp_path / name).tasks for name in arms]
    assert plans[0] == plans[1] == plans[2]


def test_an_error_is_counted_and_asked_again_and_nothing_else_is(tmp_path: Path) -> None:
    of = asked(tmp_path, *PRACTICE)
    record(of, Double(errors={("1", 0), ("2", 1)}))
    failed = [one for one in lines(of.there) if one["error"]]
    assert {(one["task"], one["item"], one["repeat"]) for one in failed} == {
        (task.split()[0], *key) for task in PRACTICE for key in (("1", 0), ("2", 1))
    }
    for one in failed:
        assert (one["outcome"], one["answer"], one["content"], set(one["scores"].values())) == ("error", None, None, {0.0})
        assert "it quotes" in one["error"]
    assert not arm.complete(of.there)
    kept = {(one["task"], one["item"], one["repeat"]): one for one in lines(of.there) if not one["error"]}
    again = record(of)
    assert {q.key for q in again.asked} == {(one["task"], one["item"], one["repeat"]) for one in failed}
    now = {(one["task"], one["item"], one["repeat"]): one for one in lines(of.there)}
    assert len(now) == 14
    assert {key: now[key] for key in kept} == kept
    assert arm.complete(of.there)


@pytest.mark.parametrize("after", [0, 1, 5, 8, 9, 13])
def test_an_engine_that_dies_loses_nothing_that_it_finished(tmp_path: Path, after: int) -> None:
    of, whole = asked(tmp_path / "a", *PRACTICE), asked(tmp_path / "b", *PRACTICE)
    with pytest.raises(InputError, match=f"the engine died; {after} responses are kept, go on with: the command"):
        arm.record(of, console(), Double(dies_after=after))
    assert len(lines(of.there)) == after
    assert len(record(of).asked) == 14 - after
    record(whole)

    def by_key(there: Path) -> dict[Any, Any]:
        return {(one["task"], one["item"], one["repeat"]): one | {"seconds": 0} for one in lines(there)}

    assert by_key(of.there) == by_key(whole.there)
    assert records.steps(of.there) == records.steps(whole.there)


def test_brackets_of_a_path_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = asked(tmp_path / "[/red]", "practice_integers items=2")
    record(of)
    record(of)
    assert capsys.readouterr().out.count(f"in {of.there}\n") == 2


def test_half_a_line_is_cut_off_and_asked_again(tmp_path: Path) -> None:
    of = asked(tmp_path, *PRACTICE)
    record(of)
    path = of.there / records.RESPONSES
    path.write_bytes(path.read_bytes()[:-20])
    assert len(record(of).asked) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"engine": {"max_num_seqs": 3}}, "engine.max_num_seqs: it was begun with 3, now there is 72"),
        ({"model": "other"}, "model: it was begun with other, now there is "),
        ({"decode_backend": "other"}, "decode_backend: it was begun with other, now there is auto"),
        ({"planted": "shifted"}, "planted: it was begun with shifted, now there is None"),
        ({"source": "other"}, "source: it was begun with other, now there is "),
        ({"concurrency": 3}, "concurrency: it was begun with 3, now there is 64"),
        ({"environment": {"VLLM_X": "1"}}, "environment.VLLM_X: it was begun with 1, now there is None"),
        ({"versions": {"vllm": "0.1"}}, "versions.vllm: it was begun with 0.1, now there is 0"),
        ({"serves": "other"}, "serves: it was begun with other, now there is None"),
        (
            {"machine": provenance.machine().model_copy(update={"cores": 99})},
            "machine.cores: it was begun with 99, now there is ",
        ),
    ],
)
def test_a_record_of_another_engine_is_not_gone_on_with(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    of = asked(tmp_path, "practice_integers items=2")
    record(of)
    manifest = records.manifest(of.there)
    for name, value in changed.items():
        old = getattr(manifest, name)
        records.write_manifest(of.there, manifest.model_copy(update={name: old | value if isinstance(old, dict) else value}))
    with pytest.raises(InputError) as raised:
        arm.record(of, console(), Double())
    assert f"cannot resume {of.there}: {said}" in str(raised.value)


def test_a_record_of_other_questions_is_not_gone_on_with(tmp_path: Path) -> None:
    record(asked(tmp_path, *PRACTICE))
    with pytest.raises(InputError) as raised:
        arm.record(asked(tmp_path, *PRACTICE, repeats=3), console(), Double())
    assert "tasks.practice_integers.repeats: it was begun with 2, now there is 3" in str(raised.value)


@pytest.mark.parametrize(
    ("steps", "metrics", "said"),
    [(None, "vllm:corrupted_requests_total 0\n", "the other counts no steps"), ([], "", "the other counts no requests with NaN")],
)
def test_an_engine_does_not_vouch_for_another(tmp_path: Path, steps: Any, metrics: str, said: str) -> None:
    double = Double(path="specialized")

    def account() -> dict[str, Account]:
        other = {"source": "not counted", "steps": steps, "sampled": 0}
        return Double.account(double) | {"the other": Account([other], metrics)}

    double.account = account  # type: ignore[method-assign]
    with pytest.raises(InputError, match=said):
        arm.record(asked(tmp_path, *PRACTICE, name="specialized"), console(), double)


def test_steps_are_known_before_the_first_response_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run killed after a task's last response has proof of that task."""
    seen: list[bool] = []
    append = records.append

    def spied(there: Path, answered: Any) -> None:
        for one in answered:
            steps = records.steps(there)
            seen.append(steps is not None and bool(steps.by_scene.get(one.task)))
        append(there, answered)

    monkeypatch.setattr(recording.folder, "append", spied)
    record(asked(tmp_path, *PRACTICE))
    assert len([one for one in seen if one]) == 14


@pytest.mark.parametrize(
    ("name", "double", "said"),
    [
        ("specialized", Double(path="default"), "practice_integers: 0 of 40 decode steps ran specialized, 95% are wanted"),
        ("default", Double(path="specialized"), "practice_choices: the arm default ran specialized steps"),
        ("default", Double(corrupted=0, environment={}), ""),
    ],
)
def test_what_proves_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: Name, double: Double, said: str
) -> None:
    code = arm.record(asked(tmp_path, *PRACTICE, name=name), console(), double)
    out = capsys.readouterr().out
    assert code == (3 if said else 0)
    assert (f"INVALID {said}" in out) if said else ("INVALID" not in out)


def test_nan_is_counted_over_accounts_and_restarts(tmp_path: Path) -> None:
    of, double = asked(tmp_path, *PRACTICE), Double(corrupted=5)
    grows = iter([5, 6, 6, 6, 1, 1, 1, 1, 1, 1])  # before; first look; end; before the next; a server started anew; ...

    def account() -> Any:
        double.corrupted = next(grows)
        return Double.account(double)

    double.account = account  # type: ignore[method-assign]
    assert arm.record(of, console(), double) == 3
    steps = records.steps(of.there)
    assert steps
    assert steps.corrupted == 2


def test_lm_eval_s_files_say_the_same(tmp_path: Path) -> None:
    of = asked(tmp_path, *PRACTICE)
    record(of, Double(errors={("1", 0)}))
    results = json.loads((of.there / "results.json").read_text())
    for name in ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "config", "git_hash", "date"):
        assert name in results
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in records.responses(of.there):
        found[one.task][one.item].append(one.scores["exact"])
    for task, items in found.items():
        mean = sum(sum(scores) / len(scores) for scores in items.values()) / len(items)
        assert results["results"][task]["exact,none"] == pytest.approx(mean)
        samples = [json.loads(line) for line in (of.there / f"samples_{task}.jsonl").read_text().splitlines()]
        assert results["n-samples"][task]["effective"] == len(samples)
        by_item: dict[str, list[float]] = defaultdict(list)
        for number, sample in enumerate(samples):
            assert sample["doc_id"] == number
            assert {"doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"} <= sample.keys()
            assert all(len(sample[name]) == 64 for name in ("doc_hash", "prompt_hash", "target_hash"))
            by_item[sample["doc"]["item"]].append(sample["exact"])
        assert {item: sum(s) / len(s) for item, s in by_item.items()} == {item: sum(s) / len(s) for item, s in items.items()}


def test_lm_eval_s_own_files_have_these_fields(tmp_path: Path) -> None:
    """The same task by lm-eval itself, with a model that says nothing."""
    from lm_eval.api.model import LM
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.loggers import EvaluationTracker

    from evals.running.planning import planned

    class Silent(LM):
        def generate_until(self, requests: Any) -> list[str]:
            return [""] * len(requests)

        def loglikelihood(self, requests: Any) -> Any: ...

        def loglikelihood_rolling(self, requests: Any) -> Any: ...

    of = asked(tmp_path, "practice_integers items=2")
    record(of)
    tracker = EvaluationTracker(output_path=str(tmp_path / "theirs"))
    (task,) = planned(of.suite, None, None)
    results = simple_evaluate(model=Silent(), tasks=[task.task], log_samples=True, bootstrap_iters=0, evaluation_tracker=tracker)
    assert results is not None
    samples = dict(results.pop("samples"))
    tracker.save_results_aggregated(results=dict(results), samples=samples)
    tracker.save_results_samples(task_name="practice_integers", samples=samples["practice_integers"])
    (theirs,) = (tmp_path / "theirs").rglob("results_*.json")
    assert json.loads(theirs.read_text()).keys() == json.loads((of.there / "results.json").read_text()).keys()
    (lines_,) = (tmp_path / "theirs").rglob("samples_*.jsonl")
    first = json.loads(lines_.read_text().splitlines()[0])
    own = json.loads((of.there / "samples_practice_integers.jsonl").read_text().splitlines()[0])
    assert first.keys() == own.keys()
    for name in ("doc_hash", "prompt_hash", "target_hash", "target", "doc", "arguments", "filter", "metrics"):
        assert first[name] == own[name], name


def test_a_secret_set_s_text_is_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = made_up.data(tmp_path / "data", "gpqa_diamond", "gsm8k")
    of = asked(tmp_path / "run", "gpqa_diamond", "gsm8k", data=data)

    def quotes(question: Any) -> Reply:
        text = question.messages[-1]["content"]
        return Reply(content=f"{text}\nAnswer: B", reasoning=text, finish="stop", tokens=3)

    record(of, Double(reply=quotes, errors={("0", 1)}))  # of gsm8k
    secret = Double(reply=quotes)
    secret.errors = {(one["item"], 1) for one in lines(of.there) if one["task"] == "gpqa_diamond"}
    (of.there / records.RESPONSES).unlink()
    record(of, secret)
    held = b"".join(path.read_bytes() for path in of.there.rglob("*") if path.is_file())
    said = "".join(capfd.readouterr())
    assert made_up.SECRET not in held.decode()
    assert made_up.SECRET not in said
    assert b"What is 1+2?" in held  # of the other set there is everything
    of_set = [one for one in lines(of.there) if one["task"] == "gpqa_diamond"]
    assert {one["error"] for one in of_set} == {None, "no response in 5 attempts"}
    for one in (one for one in of_set if not one["error"]):
        assert one["answer"] == "B"
        assert sorted(one["permutation"]) == [0, 1, 2, 3]
        assert len(one["digest"]) == 16


@pytest.mark.parametrize("kind", [Lost, InputError])
def test_what_an_engine_says_of_a_secret_set_is_not_repeated(tmp_path: Path, kind: type[Exception]) -> None:
    def quotes(question: Any) -> Reply:
        raise kind(f"http://host answers 500: cannot read {question.messages[-1]['content']}")

    of = asked(tmp_path / "run", "gpqa_diamond", data=made_up.data(tmp_path / "data", "gpqa_diamond"))
    with pytest.raises(InputError, match=rf"the engine is lost or refuses \({kind.__name__}\).*go on with: the command") as found:
        arm.record(of, console(), Double(reply=quotes))
    assert made_up.SECRET not in str(found.value)


@pytest.mark.parametrize("name", SETS)
def test_files_of_each_form_are_asked(tmp_path: Path, name: str) -> None:
    of = asked(tmp_path / "run", name, data=made_up.data(tmp_path / "data", name))
    record(of)
    (plan,) = records.manifest(of.there).tasks
    assert (plan.items, plan.repeats, plan.data, plan.secret) == (3, 2, "made up", name == "gpqa_diamond")
    assert len(lines(of.there)) == 6


def test_what_does_not_fit_is_not_asked_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = [*made_up.ROWS["gsm8k"][:2], {"question": "Why? " * 1000, "answer": "#### 1"}]
    made_up.write(data, "gsm8k", rows)
    made_up.pin.pin("gsm8k", data, "made up")
    of = asked(tmp_path / "run", "gsm8k", data=data)
    double = record(of)
    (plan,) = records.manifest(of.there).tasks
    assert (plan.items, [item for item, _ in plan.left_out]) == (2, ["2"])
    assert {question.item for question in double.asked} == {"0", "1"}
    assert "gsm8k: 1 items are not run, longer than 2048 tokens less 200 for the response: 2 (" in capsys.readouterr().out
    with pytest.raises(InputError, match="gsm8k: no item fits into 2048 tokens less 2021 for the response, and two are needed"):
        arm.record(asked(tmp_path / "none", "gsm8k budget=2021", data=data), console(), Double())
    made_up.write(data, "gsm8k", rows[1:])
    made_up.pin.pin("gsm8k", data, "made up")
    with pytest.raises(InputError, match="gsm8k: one item fits into 2048 tokens"):
        arm.record(asked(tmp_path / "one", "gsm8k", data=data), console(), Double())
