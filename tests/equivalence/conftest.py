"""Sound arms of the toy engine, made once."""

import pytest

from tests.equivalence.toy import Arms, arms


@pytest.fixture(scope="session")
def sound() -> Arms:
    return arms()
