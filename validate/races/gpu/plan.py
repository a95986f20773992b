"""Which kernel meets which adversary, and the fault by which the same trial must fail."""

from collections.abc import Mapping

from validate import keywords
from validate.errors import InputError
from validate.races.gpu.faults import FAULTS
from validate.races.gpu.record import Trial

RING, RING_64, RING_1 = {"slots": 8, "rows": 4}, {"slots": 8, "rows": 64}, {"slots": 1, "rows": 2}
RING_AUX = {"slots": 2, "rows": 1, "write": 3, "aux": 1}
PLAIN, FINAL = {"slots": 0, "rows": 4}, {"slots": 0, "rows": 16, "final": 1}
KDA_1, KDA_4, KDA_32 = {"tp": 8, "rows": 1}, {"tp": 16, "rows": 4}, {"tp": 8, "rows": 32}
KDA_64, VERIFY = {"tp": 16, "rows": 64}, {"tp": 16, "rows": 8, "q": 4}
QUERY_1, QUERY_2 = {"tp": 8, "rows": 1}, {"tp": 16, "rows": 2}


def _trial(kernel: str, sizes: Mapping[str, int], adversary: str, fault: str, stall: str | None = None) -> Trial:
    return Trial(kernel=kernel, sizes=dict(sizes), adversary=adversary, fault=fault, stall=stall)


# The first of each adversary come first: where time is short, -k and the order choose.
TRIALS: tuple[Trial, ...] = (
    # mailboxes, filled while they are polled
    _trial("attn_res", RING, "words", "first-word"),
    _trial("attn_res", RING_64, "held-back", "first-slot"),
    _trial("attn_res", RING, "words", "slots-not-re-armed"),
    _trial("attn_res", RING_AUX, "held-back", "first-word"),
    _trial("attn_res", RING_1, "words", "first-word"),
    _trial("route", {"rows": 4}, "words", "first-word"),
    _trial("route", {"rows": 16}, "words", "logits-not-re-armed"),
    _trial("route", {"rows": 16}, "held-back", "first-slot"),
    # a predecessor that lets its dependents start, and only then writes what they read
    _trial("attn_res", PLAIN, "predecessor", "attn_res-entry-wait"),
    _trial("attn_res", FINAL, "predecessor", "attn_res-entry-wait"),
    _trial("situ", {"rows": 4}, "predecessor", "situ-wait"),
    _trial("dense_situ", {"tp": 16, "rows": 4}, "predecessor", "dense-wait"),
    _trial("skinny", {"tp": 16, "rows": 2}, "predecessor", "skinny-wait"),
    _trial("kda", KDA_4, "predecessor", "kda-wait"),
    _trial("kda", KDA_1, "predecessor", "kda-wait"),
    _trial("kda", KDA_32, "predecessor", "kda-main-wait"),
    _trial("kda", VERIFY, "predecessor", "kda-main-wait"),
    _trial("mla_query", QUERY_2, "predecessor", "query-wait"),
    _trial("mla_query", QUERY_1, "predecessor", "query-wait"),
    _trial("mla_value", {"tp": 16, "rows": 8, "q": 4}, "predecessor", "value-wait"),
    _trial("o_proj", {"tp": 8, "rows": 4}, "predecessor", "producer-wait"),
    _trial("o_proj", {"tp": 8, "rows": 16}, "predecessor", "producer-wait"),
    _trial("embedding", {"rows": 4}, "predecessor", "embedding-early"),
    # a successor that reads what the kernel's predecessor wrote
    _trial("attn_res", RING, "successor", "attn_res-exit-wait"),
    _trial("route", {"rows": 4}, "successor", "route-exit-wait"),
    _trial("kda", KDA_1, "successor", "kda-wait"),
    _trial("mla_query", QUERY_2, "successor", "query-wait"),
    _trial("o_proj", {"tp": 16, "rows": 4}, "successor", "producer-wait"),
    _trial("skinny", {"tp": 8, "rows": 1}, "successor", "skinny-wait"),
    # a delay within the kernel, over poisoned shared memory
    _trial("attn_res", PLAIN, "poisoned", "attn_res-cluster-wait", "attn_res-start"),
    _trial("attn_res", PLAIN, "poisoned", "attn_res-six", "attn_res-send"),
    _trial("attn_res", FINAL, "poisoned", "attn_res-warps", "attn_res-warp"),
    _trial("route", {"rows": 16}, "poisoned", "route-warps", "route-warp"),
    _trial("kda", KDA_4, "poisoned", "kda-cluster-wait", "kda-start"),
    _trial("kda", KDA_4, "poisoned", "kda-decays-short", "kda-decays"),
    _trial("kda", KDA_4, "poisoned", "kda-outputs-short", "kda-outputs"),
    _trial("kda", KDA_32, "poisoned", "kda-norms", "kda-warp"),
    _trial("mla_query", QUERY_2, "poisoned", "query-cluster-wait", "query-start"),
    _trial("mla_query", QUERY_2, "poisoned", "query-short", "query-send"),
    _trial("mla_value", {"tp": 16, "rows": 8, "q": 4}, "poisoned", "value-warps", "value-warp"),
    _trial("o_proj", {"tp": 8, "rows": 4}, "poisoned", "producer-warps", "producer-warp"),
    # poisoned shared memory alone
    _trial("attn_res", RING, "poisoned", "attn_res-exchange-wait"),
    _trial("kda", {"tp": 8, "rows": 64}, "poisoned", "kda-state-wait"),
    _trial("mla_query", QUERY_1, "poisoned", "query-gather-wait"),
    # few multiprocessors: clusters start late, and after their payload
    _trial("attn_res", RING, "crowded", "re-armed-early"),
    _trial("attn_res", RING_64, "crowded", "first-slot"),
    _trial("route", {"rows": 16}, "crowded", "first-word"),
    _trial("kda", KDA_64, "crowded", "kda-norms"),
    _trial("mla_value", {"tp": 8, "rows": 64}, "crowded", "value-warps"),
)


def chosen(keyword: str | None) -> list[Trial]:
    """The trials whose names match: parts joined by and, or, not; or one whole name. InputError if none does."""
    found = [trial for trial in TRIALS if keyword in (None, trial.name) or keywords.matches(keyword or "", trial.name)]
    if not found:
        raise InputError(f"-k '{keyword}' selects none of {len(TRIALS)} trials: their names are as '{TRIALS[0].name}'")
    return found


def says(trial: Trial) -> str:
    """The control's fault, in words."""
    return FAULTS[trial.fault].says
