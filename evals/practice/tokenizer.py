"""The practice model's tokenizer: byte-level BPE of 768 entries, trained on the corpus's own text.

``python -m evals.practice.tokenizer`` writes golden/practice/tokenizer.json and tokenizer_config.json again, byte for byte. Any
text survives encoding and decoding; digits, and the letters of random strings across a change of case, are never merged.
transformers' ``AutoTokenizer`` loads the folder; the corpus needs the first file only.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

from evals.practice import chat

FOLDER = Path(__file__).parents[2] / "golden" / "practice"
ENTRIES = 768
LEARNED_FROM = 6000  # items
# What merges stay within. A message's tag with its role is one piece: it may become one token, as no pattern of K3's allows, and
# a turn costs few tokens. The next capital letter starts a piece: a text is the same tokens behind a random string.
PIECES = r'message role="[a-z]+"|\d| ?[A-Z]?[a-z]+| ?[A-Z]| ?[^\sA-Za-z\d]+|\s'


def train(texts: Iterable[str]) -> Tokenizer:
    """A tokenizer of :data:`ENTRIES` entries: chat's special tokens, the 256 bytes, and merges learned from ``texts``."""
    tokenizer = Tokenizer(BPE())
    pieces = Split(Regex(PIECES), behavior="isolated")
    tokenizer.pre_tokenizer = Sequence([pieces, ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=ENTRIES,
        special_tokens=list(chat.SPECIAL),
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    special = re.compile("|".join(map(re.escape, chat.SPECIAL)))  # training would take them for text
    tokenizer.train_from_iterator((part for text in texts for part in special.split(text)), trainer)
    if tokenizer.get_vocab_size() != ENTRIES:
        raise ValueError(f"the texts give {tokenizer.get_vocab_size()} entries, not {ENTRIES}: train on more text")
    return tokenizer


def config() -> dict[str, object]:
    """The content of tokenizer_config.json. Generation ends at the end of a message, as in K3's generation_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": chat.END,
        "pad_token": chat.PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "chat_template": chat.TEMPLATE,
    }


def load() -> Tokenizer:
    """The tokenizer in golden/practice."""
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def write(folder: Path, items: int = LEARNED_FROM) -> None:
    """Trains on the first ``items`` conversations of corpus seed 0 and writes both files to ``folder``."""
    from evals.practice import corpus

    texts = [prompt + answer for prompt, answer in corpus.conversations(0, 0, items)]
    folder.mkdir(parents=True, exist_ok=True)
    train(texts).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config(), indent=2) + "\n")


if __name__ == "__main__":
    write(FOLDER)
