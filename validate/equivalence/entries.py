"""What of vLLM 0.33.0 the recorder relies on where no import would notice: see ``validate/paths/vllm/entries.py``."""

from validate.paths.vllm.entries import Entry

GPU = "vllm/v1/worker/gpu"
DECODE = "vllm/models/kimi_k3/nvidia/specialized_decode/runtime/decode.py"

# extension.py wraps these.
WRAPPED = (
    Entry(f"{GPU}/cudagraph_utils.py", "CudaGraphManager.capture", ("create_forward_fn", "progress_bar_desc")),
    Entry(f"{GPU}/cudagraph_utils.py", "CudaGraphManager.run_fullgraph", ("desc",)),
    Entry(f"{GPU}/cudagraph_utils.py", "CreateForwardFn.__call__", ("desc", "warmup")),
    Entry(
        f"{GPU}/model_runner.py",
        "GPUModelRunner.prepare_inputs",
        ("scheduler_output", "batch_req_state", "batch_desc", "num_active_loras"),
    ),
    Entry(f"{GPU}/model_runner.py", "GPUModelRunner.sample", ("hidden_states", "input_batch", "grammar_output")),
    Entry(DECODE, "SpecializedDecode.plan", ("positions", "intermediate_tensors")),
)
# Classes whose fields extension.py reads.
FIELDS = {
    (f"{GPU}/cudagraph_utils.py", "BatchExecutionDescriptor"): {"cg_mode", "num_tokens"},
    (f"{GPU}/cudagraph_utils.py", "ModelCudaGraphManager"): set(),
    (f"{GPU}/model_runner.py", "BatchReqState"): {"num_scheduled_tokens", "is_prefilling_np", "prefill_runs_as_decode_np"},
    (f"{GPU}/sample/output.py", "SamplerOutput"): {"sampled_token_ids", "num_sampled"},
    (DECODE, "Step"): {"q"},
    # identity.py reads these.
    ("vllm/config/cache.py", "CacheConfig"): {"cache_dtype", "enable_prefix_caching", "mamba_ssm_cache_dtype"},
    ("vllm/config/model.py", "ModelConfig"): {
        "dtype",
        "enable_trace_replay",
        "enforce_eager",
        "max_model_len",
        "model",
        "revision",
        "seed",
    },
    ("vllm/config/parallel.py", "ParallelConfig"): {"decode_context_parallel_size", "tensor_parallel_size"},
    ("vllm/config/scheduler.py", "SchedulerConfig"): {"max_num_batched_tokens", "max_num_seqs"},
    ("vllm/config/speculative.py", "SpeculativeConfig"): {"method", "num_speculative_tokens"},
    ("vllm/config/vllm.py", "VllmConfig"): {
        "additional_config",
        "cache_config",
        "model_config",
        "parallel_config",
        "scheduler_config",
        "speculative_config",
    },
}
# Lines that say where vLLM calls what is wrapped, or what is asked of servers.
SAID = (
    ("vllm/v1/worker/worker_base.py", '"init_worker_extension"'),
    (f"{GPU}/model_runner.py", "self.cudagraph_manager.run_fullgraph(batch_desc)"),
    ("vllm/entrypoints/serve/dev/rpc/api_router.py", '"/collective_rpc"'),
    ("vllm/entrypoints/serve/dev/cache/api_router.py", '"/reset_prefix_cache"'),
    ("vllm/entrypoints/serve/dev/cache/api_router.py", "reset_running_requests: bool"),
    ("vllm/entrypoints/scale_out/token_in_token_out/api_router.py", '"/inference/v1/generate"'),
    ("vllm/entrypoints/serve/tokenize/api_router.py", '"/tokenize"'),
    ("vllm/sampling_params.py", "trace_decode_token_ids: list[int] | None"),
    ("vllm/v1/metrics/loggers.py", '"vllm:corrupted_requests"'),
    ("vllm/v1/metrics/loggers.py", '"vllm:num_preemptions"'),
    ("vllm/v1/metrics/loggers.py", '"vllm:cache_config_info"'),
)
