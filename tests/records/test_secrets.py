"""Secrets never enter a record."""

from validate.records.secrets import SET, told


def test_a_secret_variable_is_named_without_its_value() -> None:
    given = {"VLLM_API_KEY": "sk-1", "VLLM_HF_TOKEN": "hf_1", "VLLM_LOGGING_LEVEL": "INFO", "VLLM_DB_PASSWORD": "p"}
    given["VLLM_MAX_TOKENS_PER_EXPERT"] = "4"
    assert told(given) == given | {"VLLM_API_KEY": SET, "VLLM_HF_TOKEN": SET, "VLLM_DB_PASSWORD": SET}
