"""Secrets never enter a record."""

import pytest

from validate.errors import InputError
from validate.records.secrets import SET, address, told, unrecorded


def test_a_secret_variable_is_named_without_its_value() -> None:
    secret = ("VLLM_API_KEY", "VLLM_HF_TOKEN", "VLLM_DB_PASSWORD", "VLLM_APIKEY", "VLLM_AUTH", "VLLM_HF_PASSWD")
    given = dict.fromkeys(secret, "s") | {"VLLM_LOGGING_LEVEL": "INFO", "VLLM_MAX_TOKENS_PER_EXPERT": "4"}
    assert told(given) == given | dict.fromkeys(secret, SET)


@pytest.mark.parametrize("url", ["http://me:hunter2@host:1", "me:hunter2@host:1", "http://hunter2@host"])
def test_an_address_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InputError, match="the address of host holds a name or password") as refused:
        address(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://[x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="an address such as http://host:8000 is wanted"):
        address(url)


def test_an_address_may_leave_its_scheme_out() -> None:
    assert (address("host:8000").hostname, address("host:8000").port) == ("host", 8000)


def test_a_command_that_sets_a_secret_is_refused() -> None:
    unrecorded(["srun", "--ntasks-per-node=1", "env", "NCCL_DEBUG=INFO", "torchrun"], "--over-ranks")
    with pytest.raises(InputError, match="--over-ranks: the value of HF_TOKEN would be recorded: export the variable") as refused:
        unrecorded(["env", "HF_TOKEN=hunter2", "torchrun"], "--over-ranks")
    assert "hunter2" not in str(refused.value)
