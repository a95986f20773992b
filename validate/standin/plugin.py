"""How vLLM finds the stand-in: an entry point of the group ``vllm.general_plugins``, called in every vLLM process."""


def register() -> None:
    """Registers the model's architecture and its configuration with vLLM and transformers."""
    from transformers import AutoConfig
    from vllm import ModelRegistry

    from validate.standin.configuration import StandInConfig

    AutoConfig.register(StandInConfig.model_type, StandInConfig, exist_ok=True)
    ModelRegistry.register_model("K3StandInForCausalLM", "validate.standin.vllm_model:K3StandInForCausalLM")
