"""Faults planted in which steps are specialized, and in when a request ends."""

from dataclasses import replace
from typing import Any

from validate.faults.engine import fault
from validate.model.decoding import Request
from validate.paths.dispatch import Deployment, Plan
from validate.standin.specialized import SpecializedForms


@fault("all-steps-fall-back", "the fast path is always off and nobody is told (vLLM 53327)")
class AllStepsFallBack(SpecializedForms):  # noqa: D101 - each fault is described by its decorator
    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        return replace(super().plan(requests, deployment), specialized=False, reason="not ready")


@fault("some-steps-fall-back", "one step in ten runs on the default path: a graph that was not captured")
class SomeStepsFallBack(SpecializedForms):  # noqa: D101
    steps = 0

    def plan(self, requests: tuple[Request, ...], deployment: Deployment) -> Plan:
        made = super().plan(requests, deployment)
        self.steps += made.specialized
        return replace(made, specialized=False, reason="no graph") if made.specialized and self.steps % 10 == 0 else made


@fault(
    "ends-one-token-late",
    "stop ids, the end of text and the last token are seen one step late, as by a scheduler that runs ahead",
)
class EndsOneTokenLate(SpecializedForms):  # noqa: D101
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        from vllm.v1.core.sched import scheduler
        from vllm.v1.request import RequestStatus

        in_time, due = scheduler.check_stop, dict[str, tuple[Any, Any]]()

        def late(request: Any, longest: int) -> bool:
            if request.request_id in due:
                request.status, request.stop_reason = due.pop(request.request_id)
                return True
            if in_time(request, longest):
                due[request.request_id] = request.status, request.stop_reason
                request.status, request.stop_reason = RequestStatus.RUNNING, None
            return False

        scheduler.check_stop = late
