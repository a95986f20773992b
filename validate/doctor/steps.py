"""Which steps of a deployment run specialized, and why the others do not: one line for each range of equal answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from validate.doctor import graphs
from validate.model.decoding import Request
from validate.paths import dispatch
from validate.preflight.deployment import Deployment

QUERIES = range(2, 9)  # rows a request that the path can verify, where the deployment leaves it to the draft's checkpoint
PROMPT = 100  # rows of a prompt: any number
GRAPHS = 8  # of a range whose rows are listed


@dataclass(frozen=True)
class Steps:
    """One kind of step over a range of requests; ``why`` it runs on the default path, or which graphs it replays."""

    kind: str
    requests: str
    specialized: bool
    why: str

    def __str__(self) -> str:
        return f"{'specialized' if self.specialized else 'default':11}  {self.kind}, {self.requests}: {self.why}"


def of(d: Deployment) -> list[Steps]:
    """Every kind of step that the deployment has."""
    found: list[Steps] = []
    for q in QUERIES if d.q is None else (d.q,):
        found += _uniform(graphs.deployed(d, q))
    q = d.q or QUERIES[-1]
    if q > 1:
        short = {"some requests with fewer drafts": (Request(q), Request(q - 1)), "nothing drafted": (Request(1),)}
        found += [_one(name, requests, graphs.deployed(d, q)) for name, requests in short.items()]
    prompts = {
        "decode beside a prompt or a part of one": (Request(q), Request(PROMPT, prompt=True)),
        "prompts alone": (Request(PROMPT, prompt=True),),
    }
    return [*found, *(_one(name, requests, graphs.deployed(d, q)) for name, requests in prompts.items())]


def disagreements(deployment: dispatch.Deployment, plans: Mapping[int, bool]) -> list[str]:
    """Graphs that vLLM's own ``plan()`` takes otherwise than ``of`` says."""
    said = {True: "specialized", False: "default"}
    return [
        f"a graph of {rows} rows: vLLM's own plan() says {said[own]}, this project {said[not own]}"
        for rows, own in plans.items()
        if dispatch.captured_as(rows, deployment).specialized != own
    ]


def _uniform(deployment: dispatch.Deployment) -> Iterator[Steps]:
    """Steps whose requests all have q rows, from one request to more than the largest graph holds."""
    q = deployment.q
    kind = "decode, 1 row a request" if q == 1 else f"verify, {q} rows a request"
    most = max(deployment.graphs, default=0) // q + 1
    planned = [(n, dispatch.plan((Request(q),) * n, deployment)) for n in range(1, most + 1)]
    for (specialized, reason), group in groupby(planned, lambda one: (one[1].specialized, one[1].reason)):
        found = list(group)
        first, last = found[0][0], found[-1][0]
        open_ended = last == most
        requests = f"{first} requests or more" if open_ended else f"{first} to {last} requests" if last > first else _count(first)
        rows = sorted({plan.rows for _, plan in found})
        why = reason if open_ended else f"{reason}: {_graphs(rows)}" if reason else _graphs(rows)
        yield Steps(kind, requests, specialized, why)


def _one(kind: str, requests: tuple[Request, ...], deployment: dispatch.Deployment) -> Steps:
    found = dispatch.plan(requests, deployment)
    return Steps(kind, "any number of requests", found.specialized, found.reason)


def _count(requests: int) -> str:
    return f"{requests} request{'s' if requests > 1 else ''}"


def _graphs(rows: list[int]) -> str:
    listed = ", ".join(map(str, rows)) if len(rows) <= GRAPHS else f"{rows[0]}, {rows[1]}, … {rows[-1]}"
    return f"padded to graphs of {listed} rows"
