r"""Contents whose grade is known; what lm-eval's stock tasks make of them: test_beside_lm_eval.py."""

from evals.grading.response import Outcome

SCORED, NO_ANSWER = Outcome.SCORED, Outcome.NO_ANSWER

# content, gold, outcome, score
AIME: list[tuple[str, str, Outcome, int]] = [
    (r"\boxed{070}", "70", SCORED, 1),
    (r"\boxed{\text{70}}", "70", SCORED, 1),  # a pattern that ends at the first brace finds nothing
    (r"\boxed{\mathbf{\text{ 70 }}}", "70", SCORED, 1),
    (r"$\boxed{ 70\,}$", "70", SCORED, 1),
    (r"\boxed{70} ... wait, \boxed{71}", "70", SCORED, 0),
    (r"\boxed{71} ... wait, \boxed{70", "71", SCORED, 1),  # the last that is closed
    ("the answer is 70 (problem 15)", "70", NO_ANSWER, 0),  # a fallback reads 15
    (r"\boxed{1,070}", "70", SCORED, 0),  # split at the comma it is 070
    (r"\boxed{70.0}", "70", SCORED, 0),
    (r"\boxed{-70}", "70", SCORED, 0),
    (r"\boxed{}", "0", NO_ANSWER, 0),
    (r"\boxed{70} (in the form \boxed{})", "70", SCORED, 1),
    (r"\boxed {70}", "70", SCORED, 1),
    (r"\fbox{70}", "70", SCORED, 1),
    (r"\boxed{{70}}", "70", SCORED, 1),
    (r"\boxed{\bf 70}", "70", SCORED, 1),
    (r"\boxed{70^\circ}", "70", SCORED, 1),
    (r"\boxed{70.}", "70", SCORED, 1),
    (r"\boxed{m + n = 70}", "70", SCORED, 1),
    (r"\boxed{a = 5, b = 70}", "70", SCORED, 0),
    (r"\boxed{7 0}", "70", SCORED, 0),
    ("\\boxed{70\u200b}", "70", SCORED, 1),
    (r"\boxed{000}", "0", SCORED, 1),
    (r"\boxed{x \in \{1, 2\}}", "2", SCORED, 0),
    (r"\boxed{７０}", "70", SCORED, 0),
]

# content, gold, flexible, strict
GSM8K: list[tuple[str, str, int, int]] = [
    ("so.\n#### 1,234", "1234", 1, 1),
    ("#### $70,000", "70000", 1, 0),
    (r"**Answer: \$18 per day.**", "18", 1, 0),
    ("Q: ... #### 9\nQ: mine.\n#### 18", "18", 1, 1),  # the first mark is a recited example's
    ("Answer: 5 (checked 3 times)", "5", 1, 0),  # the last number is 3
    ("#### -5", "-5", 1, 1),
    ("#### \u22125", "-5", 1, 1),
    ("#### 18.00", "18", 1, 1),
    ("#### 18.", "18", 1, 1),
    ("#### **18**", "18", 1, 0),
    ("#### 18 apples", "18", 1, 1),
    ("#### 180", "18", 0, 0),
    ("#### 1 8", "18", 0, 0),
    (r"The total is \boxed{1{,}234}.", "1234", 1, 0),
    (r"\boxed{\textbf{18}}", "18", 1, 0),
    ("#### 18 ####", "18", 1, 1),
    ("#### -$18", "-18", 1, 0),
    ("#### N = 18", "18", 1, 0),
    ("#### 1\u202f234", "1234", 1, 1),
    ("#### 1,23", "1", 0, 0),
    ("#### 1.234,5", "1.234", 0, 0),
    ("#### 18 000", "18", 0, 0),
    (r"#### 18{,}000", "18", 0, 0),
    ("#### 18e3", "18", 0, 0),
    ("#### 36/2", "36", 0, 0),
    ("#### 9*2 = 18", "9", 0, 0),
    ("#### 18-20", "18", 0, 0),
    ("#### 18 or 20", "18", 0, 0),
    ("#### 18\u00bd", "18", 0, 0),
    ("#### 18 = 9*2", "18", 1, 1),
    ("Answer:\n- 18", "18", 0, 0),
    (r"The total is \boxed{\$1,234}.", "1234", 1, 0),
    ("The answer is 7. No, the answer is 8.", "8", 1, 0),
    ("The final answer is: **12** dollars", "12", 1, 0),
    ("#### the total\nThe answer is 4", "4", 1, 0),  # nothing can be read after the mark
    ("Tom has 18 nuts.", "18", 0, 0),
    ("it is 3", "3", 0, 0),
]

# content, gold, outcome, score
GPQA: list[tuple[str, str, Outcome, int]] = [
    ("Answer: B is tempting.\nAnswer: C", "C", SCORED, 1),  # the first match is B
    ("**Answer:** C", "C", SCORED, 1),  # a usual pattern finds nothing
    ("**Answer: (C)**", "C", SCORED, 1),
    ("The answer is C, as a result of b.", "C", SCORED, 1),  # the last letter is b
    ("Answer: C or D", "C", NO_ANSWER, 0),
    ("Answer: (C) and (D)", "C", NO_ANSWER, 0),
    ("Answer: **A**/**B**", "A", NO_ANSWER, 0),
    ("Answer: C or D\nAnswer: D", "D", SCORED, 1),
    ("Answer：Ｃ", "C", SCORED, 1),
    ("答案：C", "C", SCORED, 1),
    ("答案是 C", "C", SCORED, 1),
    ("Antwort: B", "B", SCORED, 1),
    ("Ответ: B", "B", SCORED, 1),
    ("answer: c", "C", SCORED, 1),
    ("The answer is a bit hard to see.", "A", NO_ANSWER, 0),
    ("The answer is not C.", "C", NO_ANSWER, 0),
    (r"The final answer is $\boxed{\text{C}}$", "C", SCORED, 1),
    ("The answer is option B.", "B", SCORED, 1),
    ("Answer: Carbon", "C", NO_ANSWER, 0),
    ("Final answer - C", "C", SCORED, 1),
    ("Correct option: C", "C", SCORED, 1),
    (r"So: $\boxed{C}$", "C", SCORED, 1),
    (r"The answer is $\boxed{\textbf{(C)}}$", "C", SCORED, 1),
    ("**Answer**\n\n**C**", "C", SCORED, 1),
    ("### Answer\nA proton.", "A", NO_ANSWER, 0),
    ("Answer: \u201cC\u201d", "C", SCORED, 1),
    ("answer: c) so", "C", SCORED, 1),
    ("The answer should be C.", "C", SCORED, 1),
    ("정답은 C입니다", "C", SCORED, 1),
    ("答案是C因为", "C", SCORED, 1),
    ("Answer: C. The wrong answer is B.", "C", SCORED, 1),
    ("Answer: C, B is wrong.", "C", SCORED, 1),
    (r"Answer: $\mathrm{C}$ or $\mathrm{D}$", "C", NO_ANSWER, 0),
    ("Answer: C, or D", "C", NO_ANSWER, 0),
    ("Answer: C; D", "C", NO_ANSWER, 0),
    ("Answer: C or possibly D", "C", NO_ANSWER, 0),
    ("Answer: C=O", "C", NO_ANSWER, 0),
    ("Answer: C-H", "C", NO_ANSWER, 0),
    ("C", "C", NO_ANSWER, 0),
    ("Answer: B", "C", SCORED, 0),
    ("Answer: D", "C", SCORED, 0),
    ("Answer: E", "C", NO_ANSWER, 0),
]
