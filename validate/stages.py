"""What is known of stages beyond their files."""

from collections.abc import Mapping

# Stages that the specialized path does not have, and why: it refuses a deployment that would need them (vLLM 0.33.0).
DEFAULT_ONLY: Mapping[str, str] = {
    "recover_ssm": "refused: the specialized path has no RecoverSSM (specialized_decode/runtime/__init__.py)",
}
