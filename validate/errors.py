"""Errors that a person caused and a person can mend."""


class InputError(Exception):
    """Bad input: one line that says what is wrong, where, and what to do. Exit code 3."""
