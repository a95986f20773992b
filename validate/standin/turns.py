"""Long outputs of a model that answers briefly: questions are dictated within the output, and answers are its own.

The practice model knows questions and short answers; left to itself behind the end of one it babbles, in both arms. So a request
has ``turns``, the token ids of further questions: when it has decoded the end of a message, the next turn is decoded in place of
what the model would say, and then the model answers on. It is one long output, decoded token by token, and what is judged of it
is the model's own. ``dictating.py`` does it in vLLM.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Turns = tuple[tuple[int, ...], ...]


@dataclass
class Conversation:
    """One output as it grows. ``end``: the id that ends an answer. ``own``: the answers so far, [start, end) in tokens."""

    turns: Turns
    end: int
    own: list[tuple[int, int]] = field(default_factory=list)
    seen: int = 0
    due: tuple[int, ...] = ()
    begun: int = 0

    def take(self, tokens: Iterable[int]) -> None:
        """Further tokens of the output."""
        for token in tokens:
            self.seen += 1
            if self.due:
                self.due = self.due[1:]
                self.begun = self.seen
            elif token == self.end:
                self.own.append((self.begun, self.seen))
                self.begun = self.seen
                if self.turns:
                    self.due, self.turns = self.turns[0], self.turns[1:]


def answers(tokens: Sequence[int], turns: Turns, end: int) -> list[tuple[int, int]]:
    """The answers in an output, [start, end): what is not dictated. The last one may have no end."""
    conversation = Conversation(turns, end)
    conversation.take(tokens)
    if not conversation.due and conversation.begun < len(tokens):
        conversation.own.append((conversation.begun, len(tokens)))
    return conversation.own
