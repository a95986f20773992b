"""A deployment as its engine arguments, its model's configuration and its environment describe it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from validate.errors import InputError

GRAPHS_BY_LEVEL = {0: "NONE", 1: "PIECEWISE", 2: "FULL_AND_PIECEWISE", 3: "FULL_AND_PIECEWISE"}
GRAPHS_BY_NUMBER = {0: "NONE", 1: "PIECEWISE", 2: "FULL"}
DTYPES = {"half": "float16", "float": "float32"}  # other names of them
# What vLLM reads off a draft's name where no method is given, in its order (vllm/config/speculative.py).
METHODS_BY_NAME = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}


class Compilation(BaseModel):
    """The parts of vLLM's compilation_config that matter here. It wants a list of capture sizes, one size alone, too."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    mode: int | str | None = None
    cudagraph_mode: int | str | None = None
    cudagraph_capture_sizes: list[int] | None = None
    max_cudagraph_capture_size: int | None = None


class Engine(BaseModel):
    """The engine arguments that matter here, by the names and with the defaults of vLLM 0.33.0; others are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    additional_config: dict[str, Any] = Field(default_factory=dict)
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    enable_eplb: bool = False
    enable_elastic_ep: bool = False
    enable_dbo: bool = False
    ubatch_size: int = 0
    enable_sleep_mode: bool = False
    enable_lora: bool = False
    enforce_eager: bool = False
    optimization_level: int = Field(default=2, ge=0, le=3)
    compilation_config: Compilation = Compilation()
    cudagraph_capture_sizes: list[int] | None = None
    max_cudagraph_capture_size: int | None = None
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    performance_mode: str = "balanced"
    speculative_config: dict[str, Any] | None = None
    spec_method: str | None = None
    spec_model: str | None = None
    spec_tokens: int | None = None
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    kv_cache_dtype_skip_layers: tuple[str | int, ...] = ()
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    use_replayssm: bool = False
    moe_backend: str = "auto"
    kernel_config: dict[str, Any] = Field(default_factory=dict)
    quantization: str | None = None
    quantization_config: dict[str, Any] | None = None
    kv_transfer_config: dict[str, Any] | None = None
    kv_offloading_size: float | None = None
    cpu_offload_gb: float = 0
    offload_group_size: int = 0
    weight_transfer_config: dict[str, Any] | None = None
    enable_return_routed_experts: bool = False
    watchdog_config: dict[str, Any] = Field(default_factory=dict)
    hf_overrides: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """``config`` is the model's config.json; ``environment`` the variables that vLLM will see.

    ``capability`` is the compute capability of the GPUs: (10, 3) on GB300.
    """

    engine: Engine
    config: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    capability: tuple[int, int] = (10, 3)

    @property
    def text(self) -> Mapping[str, Any]:
        """The language model's configuration, with the overrides of the engine arguments."""
        whole = _merged(self.config, self.engine.hf_overrides)
        return whole["text_config"] if isinstance(whole.get("text_config"), Mapping) else whole

    @property
    def weights(self) -> Mapping[str, Any]:
        """How the checkpoint's weights are quantised, as it says itself; empty if it does not."""
        whole = _merged(self.config, self.engine.hf_overrides)
        found = whole.get("quantization_config") or self.text.get("quantization_config")
        return found if isinstance(found, Mapping) else {}

    @property
    def dtype(self) -> str:
        """The model's dtype; bfloat16 where neither the arguments nor the configuration name one."""
        named = self.engine.dtype
        if named == "auto":
            places = (self.text, self.config)
            named = next((str(p[key]) for p in places for key in ("dtype", "torch_dtype") if p.get(key)), "bfloat16")
        return DTYPES.get(named, named)

    @property
    def speculation(self) -> Mapping[str, Any] | None:
        """The speculative configuration, whichever way it was given; None without speculation."""
        e = self.engine
        short = {"method": e.spec_method, "model": e.spec_model, "num_speculative_tokens": e.spec_tokens}
        given = {name: value for name, value in short.items() if value is not None}
        if e.speculative_config is None and not given:
            return None
        spec = {name.replace("-", "_"): value for name, value in (e.speculative_config or {}).items()} | given
        name = str(spec.get("model", "")).lower()
        found = next((method for part, method in METHODS_BY_NAME.items() if part in name), None)
        return {"method": found} | spec

    @property
    def q(self) -> int | None:
        """Rows that verify one request's drafts; 1 without speculation, None where only the draft's checkpoint tells."""
        spec = self.speculation
        if spec is None:
            return 1
        drafted = spec.get("num_speculative_tokens")
        return 1 + drafted if isinstance(drafted, int) else None

    @property
    def decode_graphs(self) -> Literal["FULL", "PIECEWISE", "NONE"]:
        """What decode steps are captured as."""
        e = self.engine
        if e.enforce_eager:
            return "NONE"
        given = e.compilation_config.cudagraph_mode
        if given is None:
            mode = GRAPHS_BY_LEVEL[e.optimization_level]
        else:
            mode = GRAPHS_BY_NUMBER.get(given, "NONE") if isinstance(given, int) else given.upper()
        return "FULL" if mode.startswith("FULL") else "PIECEWISE" if mode == "PIECEWISE" else "NONE"

    @property
    def captured(self) -> tuple[int, ...] | None:
        """Sizes of the CUDA graphs, in rows; None where vLLM chooses them."""
        given = self.engine.cudagraph_capture_sizes or self.engine.compilation_config.cudagraph_capture_sizes
        return tuple(given) if given else None

    @property
    def moe_backend(self) -> str:
        """The kernels of the routed experts."""
        return self.engine.kernel_config.get("moe_backend", self.engine.moe_backend)

    def flag(self, variable: str) -> bool | None:
        """An environment variable that vLLM reads as 0 or 1; None if it is not set. InputError for anything else."""
        value = self.environment.get(variable)
        if value is None:
            return None
        try:
            return bool(int(value))
        except ValueError:
            raise InputError(f"{variable} is '{value}' in the environment: vLLM takes 0 or 1") from None


def engine(arguments: Mapping[str, Any]) -> Engine:
    """The engine arguments. InputError names those of the wrong kind."""
    try:
        return Engine.model_validate(arguments)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InputError(f"malformed engine arguments: {wrong}") from error


def version_of(capability: str) -> tuple[int, int]:
    """A compute capability such as 10.3. InputError for anything else."""
    major, _, minor = capability.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise InputError(f"compute capability '{capability}': two numbers are wanted, such as 10.3")
    return int(major), int(minor)


def model_config(path: Path) -> Mapping[str, Any]:
    """A model's config.json. InputError if it cannot be read or is no JSON object."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the model's configuration {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"malformed model configuration {path}: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"malformed model configuration {path}: it holds no object")
    text = config.get("text_config", config)
    if not isinstance(text, dict) or "linear_attn_config" not in text:
        raise InputError(f"{path} is no config.json of Kimi K3, which has a linear_attn_config: no other model has this path")
    return config


def _merged(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(config)
    for name, value in overrides.items():
        inner = merged.get(name)
        nested = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(inner or {}, value) if nested else value
    return merged
