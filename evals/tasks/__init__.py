r"""lm-eval tasks: the benchmarks with Kimi K3's protocol, a YAML file each, their greedy variants, and the practice tasks.

    lm_eval --include_path evals/tasks --tasks aime25 --metadata '{"data": "DIR"}' --apply_chat_template \
        --model local-chat-completions --model_args model=NAME,base_url=URL/v1/chat/completions

An lm-eval document is one item and one repeat of it, with a seed of its own: lm-eval's API models send one seed with every
request, so that repeats at its own ``repeats`` are copies of each other.

GPQA's text must not be published: of ``gpqa_diamond``, lm-eval's own ``--log_samples`` and ``--use_cache`` would write it down.
"""
