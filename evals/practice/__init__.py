r"""Practice tasks: made-up questions in the shapes of the four benchmarks, for a model small enough to be trained here.

A shape is one file with ``item(seed, index, split)``; what counts as right is in its docstring:

=========  ====================  =======================================================
shape      stands for            final content
=========  ====================  =======================================================
integers   AIME25                ends with ``\boxed{n}``
choices    GPQA-Diamond          last line ``Answer: B``
stories    GSM8K                 last line ``#### n``
needles    OpenAI's MRCR         a given string, then a text of the conversation, literally
=========  ====================  =======================================================

``chat.py`` writes a conversation as Kimi K3 does, ``tokenizer.py`` made the tokenizer in golden/practice, ``corpus.py`` packs
tokens for training. Python, numpy and tokenizers are all that these files need.
"""
