"""Asks every question of a suite of both decode paths, through lm-eval, and records each answer with what it is worth.

``suite`` and ``planning`` say what is asked, ``in_process`` and ``servers`` ask it, ``recording`` keeps what comes back,
``model`` is what lm-eval sees of it, ``lm_eval_files`` writes lm-eval's own files, ``arm`` records one arm and
``whole`` all of them.
"""
