"""``python -m validate doctor``."""

from pathlib import Path
from typing import Annotated

import typer

from validate.errors import InputError


def doctor(
    deployment: Annotated[
        Path | None, typer.Option(help="engine arguments in a TOML or JSON file, or a file with a vllm serve command")
    ] = None,
    model_config: Annotated[
        Path | None, typer.Option(help="the model's config.json, with --deployment (default: Kimi K3's sizes)")
    ] = None,
    capability: Annotated[str, typer.Option(help="compute capability of the deployment's GPUs")] = "10.3",
    vllm_src: Annotated[
        Path | None, typer.Option(envvar="K3_PARITY_VLLM_SRC", help="the folder that holds vllm/ (default: the installed vLLM)")
    ] = None,
) -> int:
    """Says what this machine can validate and what it lacks; or whether a deployment runs specialized, and which of its steps.

    Exit code 0 if all that takes no GPU can run here, or by nox, else 3. With --deployment as preflight: 0 if nothing stands in
    its way, 2 if there are only warnings, 3 if vLLM refuses it or the path does not support it.
    """
    try:
        if deployment is not None:
            return _deployment(deployment, model_config, capability, vllm_src)
        if model_config is not None:
            raise InputError("--model-config says what a deployment serves: name that with --deployment")
        return _machine(vllm_src)
    except ModuleNotFoundError as error:
        if str(error.name).startswith(("validate", "evals")):
            raise  # this project's own mistake
        raise InputError(f"{error.name} is not installed, which this takes: pip install -e .") from error


def _machine(vllm_src: Path | None) -> int:
    from validate.doctor import layers, report

    found = layers.all_of(vllm_src)
    for line in report.machine(found):
        typer.echo(line)
    return 0 if layers.cpu_layers_run(found) else 3


def _deployment(file: Path, model_config: Path | None, capability: str, vllm_src: Path | None) -> int:
    from validate.doctor import deployment

    described = deployment.read(file, model_config, capability)
    answer = deployment.examine(described, vllm_src)
    for line in answer.lines:
        typer.echo(line)
    return answer.verdict.exit_code
