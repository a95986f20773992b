"""The commands that start an arm's servers, one a node, and record from them."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from validate.equivalence.arm import ArmSet, Launch, Name
from validate.equivalence.here import EXTENSION
from validate.equivalence.in_process import FORCING

HEAD = "$HEAD"  # the first node's address, which only the user knows
DEVELOPMENT = {"VLLM_SERVER_DEV_MODE": "1"}  # /collective_rpc and /reset_prefix_cache


def arguments(arms: ArmSet, name: Name) -> dict[str, Any]:
    """What ``vllm serve`` gets for an arm, on whichever node."""
    extra: dict[str, Any] = {"worker_extension_cls": EXTENSION, "enable_prompt_tokens_details": True}
    if arms.forced and arms.engine.get("enable_trace_replay"):
        extra["enable_scale_out"] = True  # completions take no trace
    elif arms.forced:
        extra["logits_processors"] = [FORCING]
    return arms.arguments(name) | extra


def words(model: str, given: dict[str, Any]) -> list[str]:
    """The command line for arguments by vLLM's names."""
    found = ["vllm", "serve", model]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            found.append(option if value else option.replace("--", "--no-", 1))
        elif isinstance(value, dict):
            found += [option, json.dumps(value)]
        elif isinstance(value, list):
            found += [option, *map(str, value)]
        else:
            found += [option, str(value)]
    return found


def on_node(arms: ArmSet, name: Name, node: int) -> list[str]:
    """The command of one node. The nodes after the first serve nobody: their ranks take part."""
    launch = arms.launch or Launch()
    given = arguments(arms, name)
    if launch.nodes > 1:
        given |= {"distributed_executor_backend": "mp", "nnodes": launch.nodes, "node_rank": node}
        given |= {"master_addr": HEAD, "master_port": launch.master_port}
    given |= {"headless": True} if node else {"port": launch.port}
    return words(arms.model, given)


def render(file: str, arms: ArmSet, keyword: str | None = None) -> str:
    """All commands, in the order in which a person gives them."""
    lines = heading(arms)
    chosen = shlex.quote(file) + (f" -k {shlex.quote(keyword)}" if keyword else "")
    backends: list[tuple[Name, ...]] = [("default", "default-again"), ("specialized",)]
    backends += [("float32",)] if "float32" in arms.defaults else []
    for names in backends:
        lines += servers(arms, names)
        if "default-again" in names:
            lines += ["", "# between the two recordings of this backend the server is started anew"]
        for name in names:
            source = " --force-from DEFAULT_RUN" if arms.forced and name != "default" else ""
            lines.append(f"python -m validate record {chosen} --arm {name} --url {address(arms)}{source}")
    return "\n".join(lines)


def heading(arms: ArmSet) -> list[str]:
    """What is to be known first."""
    launch, lines = arms.launch or Launch(), [f"# {arms.description}"]
    if launch.nodes > 1:
        lines.append(
            f"# On every node: export HEAD=the first node's address. {launch.nodes} nodes of {launch.gpus_per_node} GPUs."
        )
    return [
        *lines,
        "# The folder that holds validate/ is on the PYTHONPATH of every node: vLLM's workers import from it.",
        "# K3_PARITY_IMAGE is set there, too: the digest of the image that runs. Workers say it, and it goes into the records.",
        "# Development endpoints obey whoever reaches them: the port is for this network alone.",
    ]


def servers(arms: ArmSet, names: Sequence[Name]) -> list[str]:
    """What starts the one server of arms that have a backend in common, node by node."""
    launch, lines = arms.launch or Launch(), list[str]()
    variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in (arms.environment | DEVELOPMENT).items())
    for node in range(launch.nodes):
        lines += ["", f"# {' and '.join(names)}" + (f": node {node}" if launch.nodes > 1 else "")]
        lines.append(f"{variables} {_joined(on_node(arms, names[0], node))}")
    return lines


def address(arms: ArmSet) -> str:
    """Of the server."""
    return f"http://{HEAD}:{(arms.launch or Launch()).port}"


def _joined(parts: list[str]) -> str:
    return " ".join(part if part == HEAD else shlex.quote(part) for part in parts)
