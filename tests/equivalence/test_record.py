"""Recording: nothing that ended is lost, scenes whose batches matter are run whole, and what proves nothing is said."""

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.doubles import Double, Faults, arm_set, decoded, served
from validate.equivalence import identity, record
from validate.equivalence.arm import ArmSet
from validate.equivalence.engine import metric
from validate.equivalence.identity import model_digest
from validate.equivalence.record import Asked
from validate.equivalence.server import Server
from validate.errors import InputError
from validate.records import arm_folder, writer
from validate.records.arm import StepCount, Steps
from validate.report.console import console

ALONE = {"kind": "alone", "name": "alone", "lengths": [1, 2, 3], "tokens": 3}
TWO = {"kind": "together", "name": "two", "sizes": [2, 3], "lengths": [3, 5], "tokens": 4, "decode_only": True}
FORCED = {"kind": "forced", "name": "forced", "of": ["two"]}
DICTATED = {"kind": "dictated", "name": "dictated", "requests": 2, "length": 6}
PREFIX = {"kind": "prefix", "name": "prefix", "requests": 1, "blocks": 1, "tokens": 2}
PREEMPTED = {"kind": "preemption", "name": "preempted", "requests": 2, "lengths": [2, 3], "after": 2, "tokens": 5}


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Records with a double for an engine; returns the exit code and the record."""

    def run(engine: Double, arms: ArmSet, name: Any = "default", **fields: Any) -> tuple[int, arm_folder.Arm]:
        monkeypatch.setattr(record, "InProcess", lambda *_: engine)
        before = set((tmp_path / "runs").glob("*"))
        code = record.record(Asked("test.toml", arms, name, tmp_path / "runs", **fields), console())
        made = {fields["resume"]} if "resume" in fields else set((tmp_path / "runs").iterdir()) - before
        return code, arm_folder.read(*made)

    return run


def last(folder: Path) -> Path:
    return sorted((folder / "runs").iterdir())[-1]


def test_the_digest_of_a_model_is_of_what_vllm_reads(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    digest = model_digest(str(tmp_path))
    (tmp_path / "README.md").write_text("what it is")
    assert model_digest(str(tmp_path)) == digest
    (tmp_path / "config.json").write_text("[]")
    assert model_digest(str(tmp_path)) != digest


def test_a_record_holds_what_was_decoded(recorder: Any) -> None:
    code, made = recorder(Double(), arm_set(ALONE, TWO, FORCED))
    assert code == 0
    assert len(made.transcripts) == made.manifest.planned == 3 + 5 + 5
    assert made.manifest.decode_only == ("two-2", "two-3", "forced-two-2", "forced-two-3")
    assert made.manifest.end is not None
    assert made.steps.by_scene["alone"] == (StepCount(path="default", kind="decode", rows=1, q=1, reason="", count=12),)
    by_key = {one.key: one for one in made.transcripts}
    assert by_key["two-3/1"].tokens == tuple(decoded(by_key["two-3/1"].prompt, 4))
    assert by_key["forced-two-3/1"].tokens == by_key["two-3/1"].tokens
    assert by_key["two-3/1"].times.first_token == pytest.approx(0.5)


def test_the_float32_arm_records_forced_requests_where_there_are_any(recorder: Any, tmp_path: Path) -> None:
    arms = arm_set(ALONE, TWO, FORCED, DICTATED, stand_in=True)
    _, first = recorder(Double(), arms)
    assert first.manifest.rounds_to == "bfloat16"
    code, made = recorder(Double(), arms, "float32", force_from=last(tmp_path))
    assert code == 0
    assert made.manifest.rounds_to == made.manifest.engine["dtype"] == "float32"
    assert (made.manifest.scenes, made.manifest.planned) == (("forced-two-2", "forced-two-3", "dictated"), 5 + 2)
    before = {one.key: one.tokens for one in first.transcripts}
    assert all(before[one.key] == one.tokens for one in made.transcripts)
    _, greedy = recorder(Double(), arms, "float32", keyword="alone")
    assert (greedy.manifest.scenes, greedy.manifest.planned) == (("alone",), 3)
    for none in (arm_set(ALONE), arm_set(ALONE, stand_in=True, engine=arms.of("float32").engine)):
        with pytest.raises(InputError, match=r"--arm float32: .* it has no such arm"):
            recorder(Double(), none, "float32")


def test_default_again_records_the_same_requests(recorder: Any) -> None:
    _, first = recorder(Double(), arm_set(ALONE, TWO))
    double = Double()
    _, second = recorder(double, arm_set(ALONE, TWO), "default-again")
    assert {one.key for one in first.transcripts} == {one.key for one in second.transcripts}
    assert first.manifest.plan == second.manifest.plan
    assert double.plays[0] == ["companion-0", "2", "1", "0"]  # the last scene, in reverse


def test_an_engine_that_dies_leaves_what_ended(recorder: Any, tmp_path: Path) -> None:
    arms = arm_set(ALONE, TWO)
    with pytest.raises(
        InputError, match=r"the engine died; 5 requests are kept, go on with: python -m validate record test.toml"
    ):
        recorder(Double(fails=(5,)), arms)  # three of one request each, one of two, and in the fifth it dies
    there = last(tmp_path)
    assert {one.scene for one in arm_folder.read(there).transcripts} == {"alone", "two-2"}
    double = Double()
    code, made = recorder(double, arms, resume=there)
    assert (code, double.plays) == (0, [["0", "1", "2"]])
    assert len(made.transcripts) == 8
    assert set(made.steps.by_scene) == {"alone", "two-2", "two-3"}


def test_a_killed_recording_goes_on(recorder: Any, tmp_path: Path) -> None:
    """As if it had been killed in the middle of a line, in the middle of a scene whose batch matters."""
    arms = arm_set(ALONE, TWO)
    _, whole = recorder(Double(), arms)
    there = whole.folder
    lines = (there / arm_folder.TRANSCRIPTS).read_text().splitlines(keepends=True)
    (there / arm_folder.TRANSCRIPTS).write_text("".join([*lines[:2], *lines[3:6], lines[6][:50]]))
    steps = whole.steps.by_scene
    arm_folder.write_steps(there, whole.steps.model_copy(update={"by_scene": {"alone": steps["alone"], "two-2": steps["two-2"]}}))
    double = Double()
    _, made = recorder(double, arms, resume=there)
    assert double.plays == [["length-3"], ["0", "1", "2"]]
    assert sorted(one.key for one in made.transcripts) == sorted(one.key for one in whole.transcripts)


def test_what_another_process_records_is_not_resumed(recorder: Any) -> None:
    _, made = recorder(Double(), arm_set(ALONE))
    with writer.alone(made.folder), pytest.raises(InputError, match="another process writes to"):
        recorder(Double(), arm_set(ALONE), resume=made.folder)


def test_only_the_same_arm_is_resumed(recorder: Any) -> None:
    arms = arm_set(TWO)
    _, made = recorder(Double(), arms)
    other = {"plan": {"seed": 1}, "engine": {"engine": arms.engine | {"seed": 1}}}
    for field, change in other.items():
        with pytest.raises(InputError, match=f"cannot resume .*: its {field} is .*, and now it is "):
            recorder(Double(), arms.model_copy(update=change), resume=made.folder)
    with pytest.raises(InputError, match="as specialized: it records default"):
        recorder(Double(), arms, "specialized", resume=made.folder)
    with pytest.raises(InputError, match=r"cannot resume .*: its serves is None, and now it is other"):
        recorder(Double(serves="other"), arms, resume=made.folder)
    elsewhere = made.manifest.machine.model_copy(update={"cpu": "other"})
    arm_folder.write_manifest(made.folder, made.manifest.model_copy(update={"machine": elsewhere}))
    with pytest.raises(InputError, match=r"cannot resume .* on another kind of machine: it was begun on {.*'cpu': 'other'"):
        recorder(Double(), arms, resume=made.folder)


def test_forced_tokens_come_from_the_default_arm(recorder: Any, tmp_path: Path) -> None:
    arms = arm_set(TWO, FORCED)
    with pytest.raises(InputError, match=r"scene forced-two-2 .*: name its record with --force-from"):
        recorder(Double(path="specialized"), arms, "specialized")
    assert not (tmp_path / "runs").exists()
    alone = recorder(Double(path="specialized"), arms, "specialized", keyword="two and not forced")
    assert (alone[0], {one.kind for one in alone[1].transcripts}) == (0, {"greedy"})
    _, default = recorder(Double(), arms)
    altered = default.folder / arm_folder.TRANSCRIPTS
    lines = [json.loads(line) for line in altered.read_text().splitlines()]
    altered.write_text("".join(json.dumps(one | {"tokens": [9] * len(one["tokens"])}) + "\n" for one in lines))
    code, made = recorder(Double(path="specialized"), arms, "specialized", force_from=default.folder)
    assert code == 0
    assert all(set(one.tokens) == {9} for one in made.transcripts if one.kind == "forced")
    assert all(set(one.tokens) != {9} for one in made.transcripts if one.kind == "greedy")
    with pytest.raises(InputError, match="it records specialized, and the default arm's is wanted"):
        recorder(Double(path="specialized"), arms, "specialized", force_from=made.folder)


@pytest.mark.parametrize(
    ("double", "name", "said"),
    [
        (Double(path="default"), "specialized", "0 of 8 decode steps ran specialized, 95% are wanted"),
        (Double(path="specialized"), "default", "its engine was started with the other decode_backend"),
        (Double(logprob=math.nan), "default", "a log-probability is not finite"),
        (Double(said=2), "default", "the ranks did not sample the same tokens"),
    ],
)
def test_what_proves_nothing_is_invalid(
    recorder: Any, capsys: pytest.CaptureFixture[str], double: Double, name: str, said: str
) -> None:
    code, _ = recorder(double, arm_set(TWO), name)
    assert code == 3
    assert said in capsys.readouterr().out


def test_hits_and_preemptions_are_proven(recorder: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, made = recorder(Double(), arm_set(TWO, PREFIX))
    assert code == 3
    assert "scene prefix: no token of same came from the prefix cache" in capsys.readouterr().out
    assert "prefix" not in made.steps.by_scene
    assert recorder(Double(cached=16), arm_set(TWO, PREFIX))[0] == 0
    code, _ = recorder(Double(preempts=False), arm_set(PREEMPTED))
    assert code == 3
    assert "scene preempted: no request was preempted" in capsys.readouterr().out
    assert recorder(Double(), arm_set(PREEMPTED))[0] == 0


def test_nan_logits_are_counted(recorder: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    double = Double()
    monkeypatch.setattr(double, "fresh", lambda: setattr(double, "corrupted", 1))  # before the count begins
    plain = double.play
    monkeypatch.setattr(double, "play", lambda *a: (plain(*a), setattr(double, "corrupted", 3))[0])
    code, made = recorder(double, arm_set({**TWO, "sizes": [2]}))
    assert (code, made.steps.corrupted) == (3, 2)
    assert "counted 2 requests with NaN logits" in capsys.readouterr().out


def over_http(url: str, arms: ArmSet, folder: Path, **fields: Any) -> tuple[int, arm_folder.Arm]:
    code = record.record(Asked("test.toml", arms, "default", folder / "runs", (url,), **fields), console())
    return code, arm_folder.read(last(folder))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are asked again at once. On a busy machine they take their time: what is asked is counted here."""
    monkeypatch.setattr(record, "Server", lambda url, arms: Server(url, arms, pauses=(0.0, 0.05), silence=60.0))


def test_what_comes_behind_the_last_token_counts(tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its usage, of cached tokens and drafts: a request has not ended before, however late the news of a token is read."""
    plain = Server._take

    def slowly(self: Server, answer: Any, event: Any, stamp: float) -> None:
        if event.get("usage"):
            time.sleep(0.2)
        plain(self, answer, event, stamp)

    monkeypatch.setattr(Server, "_take", slowly)
    with served() as (url, _):
        _, made = over_http(url, arm_set(TWO), tmp_path)
    assert {one.cached for one in made.transcripts} == {5}


def test_servers_are_asked_for_the_same(tmp_path: Path, quick: None) -> None:
    with served() as (url, asked):
        code, made = over_http(url, arm_set(ALONE, TWO, FORCED), tmp_path)
    assert code == 0
    assert len(made.transcripts) == 13
    one = next(one for one in made.transcripts if one.key == "two-3/1")
    assert one.tokens == tuple(decoded(one.prompt, 4))
    assert (one.finish, one.cached, len(one.logprobs), one.top[0].logprobs) == ("length", 5, 4, (-0.5, -1.5))
    assert one.times is not None
    assert len(one.times.intervals) == 3
    assert made.manifest.versions["vllm"] == "0.33.0"
    forced = [body["vllm_xargs"]["k3_parity_forced"] for body in asked if "vllm_xargs" in body]
    assert sorted(forced) == sorted(list(t.tokens) for t in made.transcripts if t.kind == "forced")


def test_scenes_are_spread_over_servers(tmp_path: Path, quick: None) -> None:
    both = threading.Barrier(2, timeout=60.0)
    with served(Faults(meets=both)) as (first, asked), served(Faults(meets=both)) as (second, others):
        asked_for = Asked("test.toml", arm_set(TWO), "default", tmp_path / "runs", (first, second))
        assert record.record(asked_for, console()) == 0
    assert {len(asked), len(others)} == {2, 3}


@pytest.mark.parametrize("faults", [Faults(breaks=1), Faults(answer=(503, "busy"), times=1), Faults(answer=(500, "oh"), times=1)])
def test_a_server_that_recovers_is_asked_again(tmp_path: Path, quick: None, faults: Faults) -> None:
    with served(faults) as (url, asked):
        code, made = over_http(url, arm_set(TWO), tmp_path)
    assert code == 0
    assert sorted(t.key for t in made.transcripts) == ["two-2/0", "two-2/1", "two-3/0", "two-3/1", "two-3/2"]
    assert len(asked) > 5  # the scene in which it failed was run again, as a whole


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (Faults(breaks=99), "ended 0 without a result|ended 1 without a result"),
        (Faults(answer=(503, "too busy"), times=99), "answers 503 Service Unavailable: too busy"),
        (Faults(answer=(400, "too long"), times=99), "answers 400 Bad Request: too long"),
    ],
)
def test_a_server_that_fails_is_one_line(tmp_path: Path, quick: None, faults: Faults, said: str) -> None:
    with served(faults) as (url, _), pytest.raises(InputError, match=said) as raised:
        over_http(url, arm_set(TWO), tmp_path)
    again = f"python -m validate record test.toml --arm default --url {url} --resume {last(tmp_path)}"
    assert str(raised.value).endswith(f"0 requests are kept, go on with: {again}")


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (Faults(bare=True), "has no /collective_rpc: start it with VLLM_SERVER_DEV_MODE=1"),
        (Faults(processes=2), "leads to several servers: name each by its own address"),
    ],
)
def test_a_server_that_does_not_fit_is_refused_before_a_record_is_begun(tmp_path: Path, faults: Faults, said: str) -> None:
    with served(faults) as (url, asked), pytest.raises(InputError, match=said):
        over_http(url, arm_set(TWO), tmp_path)
    assert not asked
    assert not list(tmp_path.iterdir())


def test_a_silent_server_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "ATTEMPTS", 1)
    monkeypatch.setattr(record, "Server", lambda url, arms: Server(url, arms, silence=2.0))
    with served(Faults(silent=8.0)) as (url, _), pytest.raises(InputError, match="said nothing for 2 s; 0 requests are kept"):
        over_http(url, arm_set(TWO), tmp_path)


def test_a_server_that_dies_leaves_a_record_to_resume(tmp_path: Path, quick: None) -> None:
    arms = arm_set(ALONE, TWO)
    faults = Faults(answer=(503, "gone"), times=99, spared=4)
    with served(faults) as (url, _), pytest.raises(InputError, match="503 Service Unavailable: gone; 3 requests are kept"):
        over_http(url, arms, tmp_path)
    there = last(tmp_path)
    assert {one.scene for one in arm_folder.read(there).transcripts} == {"alone"}
    with served() as (url, asked):
        _, made = over_http(url, arms, tmp_path, resume=there)
    assert len(made.transcripts) == 8
    assert len(asked) == 5


def test_an_address_that_nobody_listens_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"http://127.0.0.1:9 cannot be reached: Connection refused"):
        over_http("http://127.0.0.1:9", arm_set(TWO), tmp_path)
    with pytest.raises(InputError, match="an address such as http://host:8000 is wanted"):
        over_http("ftp://x", arm_set(TWO), tmp_path)
    with pytest.raises(InputError, match="the address of host holds a name or password") as refused:
        over_http("http://me:secret@host:8000", arm_set(TWO), tmp_path)
    assert "secret" not in str(refused.value)
    with served(longest=99) as (url, _), pytest.raises(InputError, match="has max_model_len 99, and the arm file 200"):
        over_http(url, arm_set(TWO), tmp_path)


def test_a_models_digest_is_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "w").write_bytes(bytes(3 * 2**20))
    first = model_digest(str(tmp_path))
    monkeypatch.setattr(identity, "WHOLE_FILE", 2**20)
    by_ends = model_digest(str(tmp_path))
    (tmp_path / "w").write_bytes(bytes(3 * 2**20 - 1) + b"1")
    assert len({first, by_ends, model_digest(str(tmp_path))}) == 3
    assert model_digest("org/K3") == "name org/K3"


def test_counters_are_summed() -> None:
    text = 'a_total{engine="0"} 1.0\na_total{engine="1"} 2.0\nb 5\n# a_total x\n'
    assert (metric(text, "a_total"), metric(text, "b"), metric(text, "c")) == (3.0, 5.0, None)


def test_steps_of_two_stretches_are_added() -> None:
    from validate.equivalence.attestation import Counted

    one = StepCount(path="default", kind="decode", rows=1, q=1, reason="", count=2)
    steps = Steps(source="", by_scene={"s": (one,)}, corrupted=1, ranks_agree=True)
    made = record.combined(steps, "s", Counted("x", (one, one.model_copy(update={"rows": 2})), False), 2)
    assert [(s.rows, s.count) for s in made.by_scene["s"]] == [(1, 4), (2, 2)]
    assert (made.corrupted, made.ranks_agree) == (3, False)
    assert record.combined(made, "t", Counted("x", None, True), None).ranks_agree is False
