"""What lm-eval's stock tasks (aime25, gsm8k, gpqa_diamond_cot_zeroshot) make of the same contents, and why that differs.

Their own files are read where lm-eval is installed: its filters, its metric, its function for AIME. The stock scores are
(flexible-extract, strict-match), of AIME one number.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.evals.grading.cases import AIME, GPQA, GSM8K

lm_eval = pytest.importorskip("lm_eval")
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.metrics import exact_match_hf_evaluate  # noqa: E402
from lm_eval.filters import build_filter_ensemble  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of lm-eval and what it imports
TASKS = Path(lm_eval.__file__).parent / "tasks"

TEXT = "compares strings, and what is in the box is not only digits"
ZEROS = "compares strings: leading zeros count"
LAST = "takes the last number of the text, which is none that was declared"
PART = "takes a number out of an expression or of a longer number"
LETTERS = "looks for a letter in brackets, or for the words The answer is and all that follows them"
OPTIONS = "falls back on a letter after a colon, whatever follows it"

# content: stock scores, and why they differ
DIFFER: dict[str, tuple[int | tuple[int, int], str]] = {
    r"\boxed{070}": (0, ZEROS),
    r"\boxed{000}": (0, ZEROS),
    r"\boxed{\text{70}}": (0, TEXT),
    r"\boxed{\mathbf{\text{ 70 }}}": (0, TEXT),
    r"$\boxed{ 70\,}$": (0, TEXT),
    r"\boxed{71} ... wait, \boxed{70": (0, "looks at the last box only, and that one is not closed"),
    "Q: ... #### 9\nQ: mine.\n#### 18": ((1, 0), "strict takes the first mark, a recited example's (lm-evaluation-harness 3438)"),
    "Answer: 5 (checked 3 times)": ((0, 0), LAST),
    "Tom has 18 nuts.": ((1, 0), LAST),
    "it is 3": ((1, 0), LAST),
    "#### −5": ((0, 0), "knows the hyphen only, not the minus sign"),
    "#### 18.00": ((0, 0), "compares strings"),
    "Answer: B is tempting.\nAnswer: C": ((1, 0), LETTERS),
    "**Answer:** C": ((0, 0), LETTERS),
    "**Answer: (C)**": ((1, 0), LETTERS),
    "The answer is C, as a result of b.": ((0, 0), LETTERS),
    "Answer: C or D": ((1, 0), OPTIONS),
    "Answer: C or D\nAnswer: D": ((1, 0), LETTERS),
    "Answer：Ｃ": ((0, 0), LETTERS),
    "答案：C": ((0, 0), LETTERS),
    "答案是 C": ((0, 0), LETTERS),
    "Antwort: B": ((1, 0), LETTERS),
    "Ответ: B": ((1, 0), LETTERS),
    "answer: c": ((0, 0), LETTERS),
    r"The final answer is $\boxed{\text{C}}$": ((0, 0), LETTERS),
    "The answer is option B.": ((0, 0), LETTERS),
    "Answer: Carbon": ((1, 0), OPTIONS),
    "\\boxed{70} (in the form \\boxed{})": (0, "looks at the last box only, written without a space"),
    "\\boxed {70}": (0, "looks at the last box only, written without a space"),
    "\\fbox{70}": (0, "compares strings, or does not know this box"),
    "\\boxed{{70}}": (0, TEXT),
    "\\boxed{\\bf 70}": (0, TEXT),
    "\\boxed{70.}": (0, TEXT),
    "\\boxed{m + n = 70}": (0, TEXT),
    "\\boxed{7 0}": (1, "takes all white space out"),
    "\\boxed{70\u200b}": (0, TEXT),
    "The total is \\boxed{1{,}234}.": ((0, 0), "does not know how TeX writes a comma"),
    "#### 1\u202f234": ((0, 0), "knows no other separator than the comma"),
    "#### 18 000": ((0, 1), PART),
    "#### 18{,}000": ((0, 1), PART),
    "#### 18e3": ((0, 1), PART),
    "#### 36/2": ((0, 1), PART),
    "#### 9*2 = 18": ((0, 1), PART),
    "#### 18-20": ((0, 1), PART),
    "#### 18 or 20": ((0, 1), PART),
    "#### 18½": ((1, 1), PART),
    "#### 18 = 9*2": ((0, 1), PART),
    "Answer:\n- 18": ((1, 0), LAST),
    "Final answer - C": ((0, 0), LETTERS),
    "Correct option: C": ((1, 0), LETTERS),
    "So: $\\boxed{C}$": ((0, 0), LETTERS),
    "The answer is $\\boxed{\\textbf{(C)}}$": ((1, 0), LETTERS),
    "**Answer**\n\n**C**": ((0, 0), LETTERS),
    "Answer: “C”": ((0, 0), LETTERS),
    "answer: c) so": ((0, 0), LETTERS),
    "The answer should be C.": ((0, 0), LETTERS),
    "정답은 C입니다": ((0, 0), LETTERS),
    "答案是C因为": ((0, 0), LETTERS),
    "Answer: C. The wrong answer is B.": ((1, 0), LETTERS),
    "Answer: C, B is wrong.": ((1, 0), LETTERS),
    "Answer: C, or D": ((1, 0), LETTERS),
    "Answer: C; D": ((1, 0), LETTERS),
    "Answer: C or possibly D": ((1, 0), LETTERS),
    "Answer: C=O": ((1, 0), LETTERS),
    "Answer: C-H": ((1, 0), LETTERS),
}


class Loader(yaml.SafeLoader):
    """Reads ``!function`` as its name."""


Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


@pytest.fixture(scope="module")
def aime() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stock_aime", TASKS / "aime" / "utils.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filtered(file: str, content: str, gold: str, document: dict[str, Any]) -> tuple[int, int]:
    task = yaml.load((TASKS / file).read_text(), Loader)
    names = ("ignore_case", "ignore_punctuation", "regexes_to_ignore")
    metric = {name: value for name, value in task["metric_list"][0].items() if name in names}
    scores = {}
    for chain in task["filter_list"]:
        parts = [(part["function"], {k: v for k, v in part.items() if k != "function"} or None) for part in chain["filter"]]
        request = Instance("generate_until", document, ("", {}), 0)
        request.resps = [content]
        build_filter_ensemble(chain["name"], parts).apply([request])
        found = exact_match_hf_evaluate(predictions=[request.filtered_resps[chain["name"]]], references=[gold], **metric)
        scores[chain["name"]] = int(found["exact_match"])
    return scores["flexible-extract"], scores["strict-match"]


@pytest.mark.parametrize(("content", "gold", "outcome", "score"), AIME)
def test_aime(aime: ModuleType, content: str, gold: str, outcome: str, score: int) -> None:
    stock = aime.process_results({"answer": gold}, [content])["exact_match"]
    assert stock == DIFFER.get(content, (score, ""))[0]
    assert (stock != score) == (content in DIFFER)


@pytest.mark.parametrize(("content", "gold", "flexible", "strict"), GSM8K)
def test_gsm8k(content: str, gold: str, flexible: int, strict: int) -> None:
    stock = filtered("gsm8k/gsm8k.yaml", content, f"Worked out.\n#### {gold}", {})
    assert stock == DIFFER.get(content, ((flexible, strict), ""))[0]
    assert (stock != (flexible, strict)) == (content in DIFFER)


@pytest.mark.parametrize(("content", "gold", "outcome", "score"), GPQA)
def test_gpqa(content: str, gold: str, outcome: str, score: int) -> None:
    options = ["yes", "no", "maybe", "never"]
    document = {"choices": options, **{f"choice{n}": option for n, option in enumerate(options, 1)}}
    stock = filtered("gpqa/cot_zeroshot/_gpqa_cot_zeroshot_yaml", content, f"({gold})", document)
    assert stock == DIFFER.get(content, ((score, score), ""))[0]
    assert (stock != (score, score)) == (content in DIFFER)
