"""Every profile in the package loads; wrong ones are refused in one line that names the field."""

from pathlib import Path

import pytest

from validate import profiles
from validate.errors import InputError

GOOD = """
description = "mine"
runs_on = "emulated"
subjects = ["emulated-default"]
tp = [16]
batches = [1, 4]
queries = []
seeds = 2
"""


@pytest.mark.parametrize("name", profiles.names())
def test_packaged_profiles_load(name: str) -> None:
    assert profiles.load(name).name == name


def test_a_file_is_a_profile_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    profile = profiles.load(str(path))
    assert (profile.name, profile.tp, profile.seeds) == ("mine", (16,), 2)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("seeds = 2", "seeds = 0", "seeds"),
        ("tp = [16]", "tp = [3]", "tp"),
        ("tp = [16]", "tp = []", "tp"),
        ("batches = [1, 4]", "batches = [65]", "batches"),
        ("queries = []", "queries = [9]", "queries"),
        ('runs_on = "emulated"', 'runs_on = "cloud"', "runs_on"),
        ('subjects = ["emulated-default"]', "", "subjects"),
        ("seeds = 2", "seeds = 2\nsurprise = 1", "surprise"),
        ("seeds = 2", "seeds = ", "line"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, old: str, new: str, names: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=names):
        profiles.load(str(path))


@pytest.mark.parametrize("name", ["nothing", "nothing.toml"])
def test_unknown_profiles_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="nothing"):
        profiles.load(name)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="malformed"):
        profiles.load(str(tmp_path / "mine.toml"))
