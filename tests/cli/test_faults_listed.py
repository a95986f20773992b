"""``python -m validate faults`` knows the faults of every kind, and ``-k`` chooses among them."""

import pytest

from tests.support import Tool
from validate.errors import InputError
from validate.faults.listed import listed
from validate.races.protocols import PROTOCOLS


def test_every_kind_is_there() -> None:
    names = [{row[0] for row in one.rows} for one in listed()]
    assert all(
        one <= other for one, other in zip(({"kda.decay-of-one-head"}, {"kda_cluster.no-init-fence"}), names, strict=False)
    )
    assert len(names) == 4
    assert sum(map(len, names[1:2])) == sum(len(protocol.faults) for protocol in PROTOCOLS)


def test_a_keyword_chooses() -> None:
    (one,) = listed("kda_cluster.no-init-fence")
    assert [row[0] for row in one.rows] == ["kda_cluster.no-init-fence"]
    assert {row[0].split(".")[0] for one in listed("kda and not kda_cluster") for row in one.rows} >= {"kda"}
    with pytest.raises(InputError, match="selects none of the"):
        listed("nothing-like-it")


def test_the_command(tool: Tool) -> None:
    done = tool("faults", "-k", "kda_cluster.no-init-fence")
    assert "no-init-fence" in done.stdout
    assert "selects none" in tool.refused("faults", "-k", "nothing-like-it")
