"""Which data sets there are, and which revision of each is meant.

Revisions and digests are those that several public projects pin; the hub itself was not at hand when they were written down.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file of a data set. ``digest``: SHA-256 in hex, or ``git:`` and the SHA-1 of the Git blob (the hub's, of small files)."""

    path: str
    digest: str


@dataclass(frozen=True)
class Source:
    """A data set.

    Attributes:
        name: of the benchmark; ``--data DIR`` holds it as ``DIR/<name>.jsonl``, ``.csv`` or ``.parquet``.
        hub: the repository on the Hugging Face hub; empty for a set that is not there.
        revision: a commit of that repository.
        files: what is loaded of it, in this order.
        rows: how many there are in all; 0 for a set of ``parts``, of which there may be any.
        columns: what has to be there; a row's digest is that of these columns.
        secret: whether its text may be in no record, log or report (GPQA's authors ask for that).
        parts: what the names of the set's files match, where ``--data DIR`` may hold any number of them.
        elsewhere: where a set is that is not on the hub.
    """

    name: str
    hub: str
    revision: str
    files: tuple[File, ...]
    rows: int
    columns: tuple[str, ...]
    secret: bool = False
    parts: str = ""
    elsewhere: str = ""


AIME25 = Source(
    name="aime25",
    hub="math-ai/aime25",
    revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
    files=(File("test.jsonl", "b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331"),),
    rows=30,
    columns=("problem", "answer"),
)
GPQA = Source(
    name="gpqa_diamond",
    hub="Idavidrein/gpqa",
    revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
    files=(File("gpqa_diamond.csv", "git:7589e3e467d69a1dceb126a60c4108d6d4f1d166"),),
    rows=198,
    columns=("Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
    secret=True,
)
GSM8K = Source(
    name="gsm8k",
    hub="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    files=(File("main/test-00000-of-00001.parquet", "ee7b8da9e381df27b9e3f7758a159ab2bdaa4dbaa910546cbbc47e0cb44e4f59"),),
    rows=1319,
    columns=("question", "answer"),
)
# The revision after the corrections of December 2025; scores of the one before (204b0d4e) may not compare.
MRCR_OPENAI = Source(
    name="mrcr_openai",
    hub="openai/mrcr",
    revision="f4c69fae7cf81f7ca26b9fee34b392a50f6b8a1d",
    files=(
        File("2needle/2needle_0.parquet", "1c297b254bf64a31856b74918cd7db889a214503e0b67daa834e84f20df6aa93"),
        File("2needle/2needle_1.parquet", "a5a1dc9ccc945623253d04d33c03d89aee2d676c88955ce368da2ab16a0ce94d"),
        File("4needle/4needle_0.parquet", "4d4fa3d11ce064749de3cd039eef1a621e30a81c2c9b3e64f1df37f8afeaf312"),
        File("4needle/4needle_1.parquet", "8dfdb94a208cf3eee73c4e7ac6ee8a5ccb7236c6934c13c6c5f67c0a9928cdf3"),
        File("8needle/8needle_0.parquet", "65df601a2e0ae4a3cfb56920a6ef99f26c0de37c6b1018695e8aed684e6a94c1"),
        File("8needle/8needle_1.parquet", "c80b19573bff1d38e1c157d6a0bdf9cfd1a8ab6372296174c9a7015e164189e3"),
    ),
    rows=2400,
    columns=("prompt", "answer", "random_string_to_prepend", "n_needles", "desired_msg_index", "total_messages"),
)
# google-deepmind/eval_hub, mrcr_v2, at 67b7fd2, whose generator writes these columns. 2, 4 and 8 needles, 12 files each.
MRCR_V2 = Source(
    name="mrcr_v2",
    hub="",
    revision="",
    files=(),
    rows=0,
    columns=("queries", "answer", "context_len", "num_relevant"),
    parts="mrcr_v2p1_*.csv",
    elsewhere="https://storage.googleapis.com/mrcr_v2/mrcr_v2p1_8needle_in_(4096,8192)_dynamic_fewshot_text_style_fast.csv "
    "and the like",
)
SOURCES = {source.name: source for source in (AIME25, GPQA, GSM8K, MRCR_OPENAI, MRCR_V2)}
