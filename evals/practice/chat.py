"""A conversation as Kimi K3 writes it.

K3 has no Jinja template: it makes token ids in Python (vLLM 0.33.0, renderers/kimi_k3.py). Its elements are opened and closed by
special tokens (vLLM 0.33.0, reasoning/kimi_k3_reasoning_parser.py), so ``--reasoning-parser kimi_k3`` reads what is written
here, too. With thinking, an assistant's turn has a ``think`` element, empty in turns without reasoning, and generation starts
within it; without, generation starts within ``response``. K3's system message on the thinking effort is left out: the practice
model has one effort. Text that spells a special token becomes one here, unlike K3's.
"""

from evals.practice.item import Item, Message

OPEN, CLOSE, SEP, END, PAD = "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "[PAD]"
SPECIAL = (OPEN, CLOSE, SEP, END, PAD)
_RESPONSE = f"{OPEN}response{SEP}"
_MESSAGE_END = f"{CLOSE}message{SEP}{END}"
_RESPONSE_END = f"{CLOSE}response{SEP}{_MESSAGE_END}"

TEMPLATE = (
    "{%- if thinking is defined and thinking is not none -%}{%- set think = thinking -%}"
    "{%- elif enable_thinking is defined and enable_thinking is not none -%}{%- set think = enable_thinking -%}"
    "{%- else -%}{%- set think = true -%}{%- endif -%}"
    "{%- for message in messages -%}"
    "{{- '<|open|>message role=\"' + message['role'] + '\"<|sep|>' -}}"
    "{%- if message['role'] == 'assistant' -%}"
    "{%- if think -%}"
    "{{- '<|open|>think<|sep|>' + (message['reasoning_content'] or message['reasoning'] or '') + '<|close|>think<|sep|>' -}}"
    "{%- endif -%}"
    "{{- '<|open|>response<|sep|>' + (message['content'] or '') + '<|close|>response<|sep|>' -}}"
    "{%- else -%}{{- message['content'] -}}{%- endif -%}"
    "{{- '<|close|>message<|sep|><|end_of_msg|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{{- '<|open|>message role=\"assistant\"<|sep|><|open|>' + ('think' if think else 'response') + '<|sep|>' -}}"
    "{%- endif -%}"
)
"""The Jinja template of tokenizer_config.json. ``thinking``, else ``enable_thinking``, else on: as vLLM's parser decides."""


def prompt(messages: tuple[Message, ...], thinking: bool) -> str:
    """The turns and the start of the answer, up to where generation starts."""
    parts = []
    for role, content in messages:
        parts.append(f'{OPEN}message role="{role}"{SEP}')
        if role == "assistant":
            parts.append(f"{_thought('') if thinking else ''}{_RESPONSE}{content}{_RESPONSE_END}")
        else:
            parts.append(f"{content}{_MESSAGE_END}")
    parts.append(f'{OPEN}message role="assistant"{SEP}{OPEN}{"think" if thinking else "response"}{SEP}')
    return "".join(parts)


def answer(item: Item, thinking: bool) -> str:
    """What the model is to generate after :func:`prompt`, with the end token. Without thinking, the content alone."""
    thought = f"{item.reasoning}{CLOSE}think{SEP}{_RESPONSE}" if thinking else ""
    return f"{thought}{item.content}{_RESPONSE_END}"


def parsed(text: str, thinking: bool) -> tuple[str | None, str | None]:
    """Content and reasoning of what was generated after :func:`prompt`, as ``kimi_k3_reasoning_parser.py`` tells them apart.

    None where there is none; a text cut off while it thinks is all reasoning. Control tokens elsewhere stay where they are.
    """
    reasoning, closed, rest = text.partition(f"{CLOSE}think{SEP}")
    if not thinking or (not closed and _RESPONSE in text):
        reasoning, rest = "", text
    elif not closed:
        return None, reasoning or None
    before, opened, inside = rest.partition(_RESPONSE)
    end = f"{CLOSE}response{SEP}"
    content = inside.partition(end)[0] if opened else before.replace(end, "")
    return content.replace(f"{CLOSE}message{SEP}", "") or None, reasoning or None


def _thought(reasoning: str) -> str:
    return f"{OPEN}think{SEP}{reasoning}{CLOSE}think{SEP}"
