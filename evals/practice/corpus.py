"""Training data: conversations of the training split, tokenised and packed into rows.

A row holds whole conversations ("documents") one after the other, then padding. What a model carries from token to token (state
or attention) has to be kept within a document. Data of (seed, number) are the same for any number of processes.

    for short, long in corpus.blocks(seed=0, count=625, processes=16):  # a block: 480,000 tokens; 625: 300 million
        short.tokens  # [about 815, 512]
        long.tokens  # [about 76, 1024]: each row has a conversation of more than 512 tokens, and shorter ones beside it

The loss of position t asks for ``tokens[t]`` given the tokens before it in its document: with the usual shift,
``cross_entropy(logits[:, :-1], tokens[:, 1:])`` weighted by ``loss[:, 1:]``.
"""

import multiprocessing
import os
import sys
import time
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from evals.practice import chat, choices, echo, integers, needles, recall, stories, tokenizer
from evals.practice.item import Draws

ITEMS = 2048  # conversations in a block
SHORT, LONG = 512, 1024
# Of 100 conversations, by phase of the training. A needle conversation has three times the tokens of another.
SHARES = {
    1: (echo,) * 100,
    2: (integers,) * 18 + (choices,) * 20 + (stories,) * 18 + (needles,) * 26 + (recall,) * 18,
}


@dataclass(frozen=True)
class Rows:
    """Packed rows of one length.

    Attributes:
        tokens: [rows, length] uint16; padding is the id of ``[PAD]``.
        loss: [rows, length] uint8, 1 at tokens that the model is to generate: the answer from its first token (after the
            generation prompt) to the end token. Assistant turns of the history have none.
        document: [rows, length] uint8, 1, 2, ... for the documents of a row, 0 for padding.
    """

    tokens: NDArray[np.uint16]
    loss: NDArray[np.uint8]
    document: NDArray[np.uint8]


def conversations(seed: int, start: int, count: int, phase: int = 2) -> list[tuple[str, str]]:
    """(prompt, answer) texts of ``count`` training items from index ``start`` on, with thinking."""
    draws = Draws(f"corpus/{seed}/{start}")
    items = [draws.pick(SHARES[phase]).item(seed, index) for index in range(start, start + count)]
    return [(chat.prompt(item.messages, True), chat.answer(item, True)) for item in items]


def block(seed: int, number: int, phase: int = 2) -> tuple[Rows, Rows]:
    """The rows of :data:`SHORT` and of :data:`LONG` tokens that hold :data:`ITEMS` conversations.

    Raises:
        ValueError: a conversation has more than :data:`LONG` tokens.
    """
    texts = [text for pair in conversations(seed, number * ITEMS, ITEMS, phase) for text in pair]
    ids = [encoding.ids for encoding in _tokenizer().encode_batch_fast(texts)]
    packed = _packed(list(zip(ids[::2], ids[1::2], strict=True)))
    draws = Draws(f"corpus/rows/{seed}/{number}")
    short, long = (_rows(draws.shuffled(packed[length]), length) for length in (SHORT, LONG))
    return short, long


def blocks(seed: int, count: int, processes: int, start: int = 0, phase: int = 2) -> Iterator[tuple[Rows, Rows]]:
    """Blocks ``start`` to ``start + count - 1``, in order, made ahead by ``processes`` spawned processes.

    As with all spawned processes, the calling script needs ``if __name__ == "__main__":``.
    """
    with multiprocessing.get_context("spawn").Pool(processes, _alone) as pool:
        yield from pool.imap(_block, ((seed, number, phase) for number in range(start, start + count)))


def _alone() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a process a core


def _block(arguments: tuple[int, int, int]) -> tuple[Rows, Rows]:
    return block(*arguments)


@cache
def _tokenizer() -> Tokenizer:
    return tokenizer.load()


Document = tuple[list[int], list[int]]  # the prompt's tokens, the answer's


def _packed(documents: list[Document]) -> dict[int, list[list[Document]]]:
    """Rows by length. The longest first, each into the fullest row that has space for it, or else into a new one."""
    rows: dict[int, list[list[Document]]] = {SHORT: [], LONG: []}
    free: list[tuple[int, int, list[Document]]] = []  # space, a number that no two rows share, the row
    for document in sorted(documents, key=_size, reverse=True):
        size = _size(document)
        place = bisect_left(free, size, key=lambda entry: entry[0])
        if place < len(free):
            space, number, row = free.pop(place)
        else:
            space = SHORT if size <= SHORT else LONG
            if size > space:
                raise ValueError(f"a conversation of {size} tokens fits no row of {LONG}")
            row, number = [], sum(map(len, rows.values()))
            rows[space].append(row)
        row.append(document)
        insort(free, (space - size, number, row))
    return rows


def _size(document: Document) -> int:
    return len(document[0]) + len(document[1])


def _rows(packed: list[list[Document]], length: int) -> Rows:
    pad = _tokenizer().token_to_id(chat.PAD)
    tokens = np.full((len(packed), length), pad, np.uint16)
    loss, document = (np.zeros((len(packed), length), np.uint8) for _ in range(2))
    for row, documents in enumerate(packed):
        at = 0
        for number, (prompt, answer) in enumerate(documents, 1):
            end = at + len(prompt) + len(answer)
            tokens[row, at:end] = prompt + answer
            loss[row, at + len(prompt) : end] = 1
            document[row, at:end] = number
            at = end
    return Rows(tokens, loss, document)


def _measure(count: int, processes: int) -> None:
    begin = time.perf_counter()
    made = list(blocks(0, count, processes))
    seconds = time.perf_counter() - begin
    tokens = sum(int((rows.document > 0).sum()) for pair in made for rows in pair)
    places = sum(rows.tokens.size for pair in made for rows in pair)
    asked = sum(int(rows.loss.sum()) for pair in made for rows in pair)
    long = sum(pair[1].tokens.size for pair in made)
    print(f"{count} blocks, {count * ITEMS} conversations, {tokens} tokens in {seconds:.1f} s: {tokens / seconds:.0f} tokens/s")
    print(f"loss on {asked / tokens:.1%} of tokens, padding {1 - tokens / places:.1%}, {long / places:.1%} in rows of {LONG}")


if __name__ == "__main__":  # how fast: python -m evals.practice.corpus BLOCKS PROCESSES
    _measure(*map(int, sys.argv[1:]))
