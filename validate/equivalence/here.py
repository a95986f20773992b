"""An engine of vLLM's in this process: what it is started with, and what it says of itself."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from validate.equivalence.arm import ArmSet, Name
from validate.equivalence.engine import block_size
from validate.equivalence.identity import Identity, agreed
from validate.equivalence.scenes import Facts
from validate.errors import InputError
from validate.records.secrets import told

EXTENSION = "validate.equivalence.extension.Steps"
PROGRESS = {"disable_log_stats": False}  # the counters of NaN logits and preemptions


class Here:
    """``LLMEngine`` with the arguments of one arm and ``further`` ones, ``plant`` a fault of it.

    InputError says why vLLM does not start.
    """

    serves: str | None = None

    def __init__(self, arms: ArmSet, name: Name, plant: str | None = None, **further: Any) -> None:
        if arms.stand_in and not Path(arms.model).is_dir():
            raise InputError(f"the stand-in's folder {arms.model} is not here: run this in the project's folder")
        for variable, value in arms.environment.items():
            os.environ[variable] = value
        # Before vLLM is imported, which sets some of its own that differ from process to process.
        self.environment = told({name: value for name, value in sorted(os.environ.items()) if name.startswith("VLLM_")})
        try:
            import vllm
        except ImportError as error:
            raise InputError(f"vLLM cannot be imported ({error}): install it here, or name its servers by their URLs") from error
        self.vllm = vllm
        arguments = PROGRESS | arms.arguments(name, plant) | {"model": arms.model, "worker_extension_cls": EXTENSION} | further
        try:
            self.engine = vllm.LLMEngine.from_engine_args(vllm.EngineArgs(**arguments))
        except Exception as error:  # whatever vLLM, its model or its device objects to
            raise InputError(f"vLLM does not start with the arm {name} of {arms.name}: {line(error)}") from error

    def identity(self) -> Identity:
        """See ``Engine``."""
        found = agreed(self.engine.collective_rpc("k3_parity_engine"), "the engine")
        return replace(found, environment=self.environment)

    def facts(self) -> Facts:
        """As the engine settled them."""
        config = self.engine.vllm_config
        block = block_size(self.metrics()) or config.cache_config.block_size
        scheduler = config.scheduler_config
        return Facts(block, scheduler.max_num_batched_tokens, config.model_config.max_model_len, scheduler.max_num_seqs)

    def fresh(self) -> None:
        """See ``Engine``."""
        if not self.engine.reset_prefix_cache():
            raise InputError("the engine does not empty its prefix cache though no request runs")
        self.count_anew()

    def count_anew(self) -> None:
        """Begins to count steps anew."""
        self.engine.collective_rpc("k3_parity_reset")

    def steps(self) -> list[Mapping[str, Any]]:
        """See ``Engine``."""
        return self.engine.collective_rpc("k3_parity_steps")

    def metrics(self) -> str:
        """See ``Engine``."""
        from prometheus_client import generate_latest

        return generate_latest().decode()

    def version(self) -> str:
        """See ``Engine``."""
        return str(self.vllm.__version__)

    def wait(self) -> bool:
        """See ``Engine``. What failed in this process does not come back."""
        return False

    def close(self) -> None:
        """See ``Engine``."""
        with contextlib.suppress(Exception):
            self.engine.engine_core.shutdown()


def line(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
