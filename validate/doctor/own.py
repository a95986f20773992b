"""vLLM's own word on a deployment, from its own files: ``unsupported()`` and ``SpecializedDecode.plan()``.

Neither needs a GPU, a model or an installed vLLM: both only read. Their files are executed with stand-ins for what they import,
and the configuration that they look at is made of the engine arguments, as the pre-flight reads them. ``unsupported()`` returns
the first reason of several; here it is given a ``next`` that returns all.
"""

import ast
import builtins
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from validate.doctor import VLLM
from validate.errors import InputError
from validate.paths import dispatch
from validate.preflight.deployment import Deployment
from validate.preflight.finding import RUNTIME

DECODE = "vllm/models/kimi_k3/nvidia/specialized_decode/runtime/decode.py"
PLAN = ("layer_name", "decode_metadata", "is_uniform_verify", "plan")
DTYPES = ("bfloat16", "float16", "float32")  # by their names: no torch is needed to compare them


class Mode(IntEnum):
    """vLLM's CompilationMode."""

    NONE, STOCK_TORCH_COMPILE, DYNAMO_TRACE_ONCE, VLLM_COMPILE = range(4)


class Graphs(Enum):
    """vLLM's CUDAGraphMode, as decode steps have it."""

    NONE, PIECEWISE, FULL = range(3)

    def decode_mode(self) -> "Graphs":
        """Itself: it is that of decode steps already."""
        return self


def reasons(root: Path, d: Deployment, sizes: Iterable[int] = ()) -> list[str]:
    """Everything that vLLM refuses, in its own words; empty if nothing is. InputError if its file asks for what is not here.

    ``root``: the folder that holds vllm/.
    """
    try:
        runtime = _executed(root / RUNTIME, d)
        seen = as_vllm_sees(d, tuple(sizes))
        said = runtime["unsupported"](seen)
        runtime["unsupported"] = lambda config: None  # asked already; what remains is the backend's name
        found = [] if said is None else [said] if isinstance(said, str) else list(said)
        if runtime["specialized_decode_config"](seen) is None:
            found.insert(0, "the default decode is asked for: additional_config names no decode_backend")
    except ValueError as error:  # as vLLM refuses a backend
        return [str(error), *found]
    except (SyntaxError, ImportError, AttributeError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{root / RUNTIME} is not as in vLLM {VLLM} ({type(error).__name__}: {error})") from error
    return found


def as_vllm_sees(d: Deployment, sizes: tuple[int, ...] = ()) -> SimpleNamespace:
    """The parts of vLLM's configuration object that its check reads. InputError for values that vLLM would not take.

    What only the draft's checkpoint tells is taken for what vLLM supports.
    """
    e, spec = d.engine, d.speculation
    drafts = spec and SimpleNamespace(
        method=spec["method"] or "dspark",
        num_speculative_tokens=(d.q or 2) - 1,
        enable_adaptive_verification=spec.get("enable_adaptive_verification", False),
    )
    if d.dtype not in DTYPES:
        raise InputError(f"dtype {d.dtype}: it is one of {', '.join(DTYPES)}")
    vocabularies = bool(spec and spec.get("use_heterogeneous_vocab"))
    return SimpleNamespace(
        additional_config=e.additional_config,
        parallel_config=SimpleNamespace(
            tensor_parallel_size=e.tensor_parallel_size,
            pipeline_parallel_size=e.pipeline_parallel_size,
            decode_context_parallel_size=e.decode_context_parallel_size,
            enable_expert_parallel=e.enable_expert_parallel,
            use_ubatching=e.enable_dbo or e.ubatch_size > 1,
        ),
        speculative_config=drafts or None,
        model_config=SimpleNamespace(
            hf_text_config=SimpleNamespace(**{"hidden_act": "silu"} | dict(d.text)),
            enable_sleep_mode=e.enable_sleep_mode,
            dtype=d.dtype,
            max_model_len=0,
        ),
        compilation_config=SimpleNamespace(
            mode=_mode(e.compilation_config.mode), cudagraph_mode=Graphs[d.decode_graphs], cudagraph_capture_sizes=sizes
        ),
        lora_config=object() if e.enable_lora else None,
        use_v2_model_runner=d.flag("VLLM_USE_V2_MODEL_RUNNER") is not False and not vocabularies,
        cache_config=SimpleNamespace(
            mamba_cache_dtype=e.mamba_cache_dtype,
            mamba_ssm_cache_dtype=e.mamba_ssm_cache_dtype,
            use_replayssm=e.use_replayssm,
            use_kda_recoverssm=False,
        ),
    )


def plans(root: Path, deployment: dispatch.Deployment) -> dict[int, bool]:
    """Whether vLLM plans each decode graph, by its rows, for the specialized path. InputError as of ``reasons``."""
    try:
        plan = planner(root)
        return {rows: plan(rows, deployment) for rows in deployment.graphs}
    except (SyntaxError, AttributeError, KeyError, NameError, TypeError, OSError) as error:
        raise InputError(f"{root / DECODE} is not as in vLLM {VLLM} ({type(error).__name__}: {error})") from error


def _mode(given: int | str | None) -> Mode:
    if given is None:
        return Mode.VLLM_COMPILE
    try:
        return Mode(given) if isinstance(given, int) else Mode[given.upper()]
    except (KeyError, ValueError):
        known = ", ".join(f"{mode.value} or {mode.name}" for mode in Mode)
        raise InputError(f"compilation mode {given}: it is one of {known}") from None


def _executed(file: Path, d: Deployment) -> dict[str, Any]:
    """What a file of vLLM defines, its imports answered by stand-ins."""
    aux = bool(d.flag("VLLM_KIMI_K3_AUX_ATTN_RES_STREAM"))
    family = SimpleNamespace(is_device_capability_family=lambda number: d.capability[0] * 10 == number)
    modules = {
        "torch": SimpleNamespace(**{name: name for name in DTYPES}),
        "vllm": SimpleNamespace(envs=SimpleNamespace(VLLM_KIMI_K3_AUX_ATTN_RES_STREAM=aux)),
        "vllm.config": SimpleNamespace(CompilationMode=Mode, CUDAGraphMode=Graphs),
        "vllm.platforms": SimpleNamespace(current_platform=family),
        "vllm.model_executor.layers.mamba.mamba_utils": SimpleNamespace(
            MambaStateDtypeCalculator=SimpleNamespace(kda_state_dtype=_state_dtypes)
        ),
    }
    # Names that a module defines hide those of Python: ``next`` gives every reason, not the first.
    namespace = {
        "__name__": __name__,
        "__builtins__": vars(builtins) | {"__import__": _importing(modules)},
        "next": lambda found, default=None: list(found) or default,
    }
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), namespace)
    return namespace


def _importing(modules: Mapping[str, Any]) -> Callable[..., Any]:
    def stand_in(name: str, scope: object = None, local: object = None, names: tuple[str, ...] = (), level: int = 0) -> Any:
        if name in modules:
            return modules[name]
        if level or name.startswith("vllm"):
            raise ImportError(f"nothing stands in for {name}")
        return builtins.__import__(name, None, None, names or (), 0)

    return stand_in


def _state_dtypes(model: str, cache: str, recurrent: str) -> tuple[str, str]:
    """KDA's states: the convolution's is the model's dtype, the recurrence's float32, where auto is asked for."""
    return (model if cache == "auto" else cache), ("float32" if recurrent == "auto" else recurrent)


def planner(root: Path) -> Callable[[int, dispatch.Deployment], bool]:
    """VLLM's ``plan`` and what it calls, of a captured graph's rows; the rest of the file takes a GPU."""
    file = root / DECODE
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in PLAN]
    if lacking := set(PLAN) - {function.name for function in functions}:
        raise KeyError(*sorted(lacking))
    scope: dict[str, Any] = {
        "Any": Any,
        "Step": lambda *fields: fields,
        "torch": SimpleNamespace(cuda=SimpleNamespace(is_current_stream_capturing=lambda: True), Tensor=object),
        "is_forward_context_available": lambda: True,
        "CUDAGraphMode": SimpleNamespace(PIECEWISE="PIECEWISE"),
    }
    exec(compile(ast.Module(functions, []), str(file), "exec"), scope)  # type: ignore[arg-type]

    def planned(rows: int, deployment: dispatch.Deployment) -> bool:
        scope["get_forward_context"] = lambda: _captured(rows, deployment.q)
        layers = [SimpleNamespace(self_attn=SimpleNamespace(prefix=name)) for name in ("kda", "mla")]
        decode = SimpleNamespace(batches=tuple(sorted(deployment.prepared)), q=deployment.q, layers=layers)
        return scope["plan"](decode, SimpleNamespace(shape=(rows,)), None) is not None

    return planned


def _captured(rows: int, q: int) -> SimpleNamespace:
    """The metadata of a decode graph's capture, as ``plan`` reads it: of a layer of each kind."""
    requests = rows // q
    kda = SimpleNamespace(
        num_prefills=0,
        num_decodes=0 if q > 1 else rows,
        num_spec_decodes=max(1, requests) if q > 1 else 0,
        spec_state_indices_tensor=SimpleNamespace(shape=(requests, q)) if q > 1 else None,
        num_spec_decode_tokens=requests * q,
    )
    mla = SimpleNamespace(num_prefills=0, num_decodes=requests, num_decode_tokens=requests * q)
    return SimpleNamespace(attn_metadata={"kda": kda, "mla": mla}, cudagraph_runtime_mode="FULL", slot_mapping=None)
