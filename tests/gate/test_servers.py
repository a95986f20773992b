"""What a call of the gate was given is tried before the first step."""

from pathlib import Path

import pytest

from tests.server import Answers, running
from tests.support import Tool
from validate.errors import InputError
from validate.gate import servers


class Nothing(Answers):
    """Has no /health."""

    def do_GET(self) -> None:
        self.send_error(404)


def test_a_server_that_answers_is_there_whatever_it_serves() -> None:
    with running(Nothing) as url:
        servers.answer([url, url.removeprefix("http://")])


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "127.0.0.1:9", "http://127.0.0.1:99999", "http://nowhere.invalid"])
def test_one_that_does_not_is_named(url: str) -> None:
    with pytest.raises(InputError, match=f"^{url} cannot be reached: .*; start it, or leave it out"):
        servers.answer([url])


def test_nothing_is_begun_then(tool: Tool, tmp_path: Path) -> None:
    assert "http://127.0.0.1:9 cannot be reached" in tool.refused("gate", "gb300-tp8", "--default-url", "http://127.0.0.1:9")
    assert "--over-ranks: no step of the gate profile cpu needs it" in tool.refused("gate", "--over-ranks", "torchrun")
    for given in (("--default-url", "http://me:hunter2@127.0.0.1:9"), ("--over-ranks", "env HF_TOKEN=hunter2 torchrun")):
        assert "hunter2" not in tool.refused("gate", "gb300-tp8", *given)
    assert not (tmp_path / "runs").exists()
