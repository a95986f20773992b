"""Compares recorded arms of evals: paired by task, item and repeat, from the records alone.

``session.py`` begins it, ``comparison.py`` has the rule by which a run passes; ``power.py`` says before a run what it can find,
``stopping.py`` of one that is half recorded whether it has failed already. No published score is used: both arms are recorded
alike.
"""
