"""What ``--help`` says of the options: as it is written, for brackets would be taken for markup and left out."""

import pytest
import typer

from validate.cli import app

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_words_in_brackets(name: str) -> None:
    assert [p.name for p in COMMANDS[name].params if "[" in (getattr(p, "help", None) or "")] == []


def test_what_holds_without_an_option_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app(["races", "--help"])
    assert "(default: 1,000,000)" in " ".join(capsys.readouterr().out.replace("│", " ").split())
