"""Where a run stands within a seed: a file that it goes on from, and what a person sees."""

import os
import time
from pathlib import Path

import torch
from rich.console import Console

from validate.errors import InputError
from validate.long_output.drift.lockstep import Lockstep
from validate.records.folder import unwritable

FILE = "progress.pt"
SAVED_EVERY = 30.0  # seconds: what an interruption loses at most
SAID_EVERY = 10.0


class Progress:
    """Saves a seed's lockstep now and then, and says how far it is."""

    def __init__(self, folder: Path, out: Console, seed: int, steps: int) -> None:
        self._folder, self._out, self._seed, self._steps = folder, out, seed, steps
        self._saved = self._said = self._began = time.monotonic()
        self._from = 0

    def restore(self, lockstep: Lockstep) -> None:
        """Takes up what was saved of this seed, if anything was. InputError if the file is damaged."""
        path = self._folder / FILE
        if not path.exists():
            return
        try:
            kept = torch.load(path, weights_only=True)
            if kept["seed"] == self._seed:
                lockstep.restore(kept["lockstep"])
                self._from = lockstep.steps
        except Exception as error:  # whatever torch raises of a file that it did not write
            raise InputError(f"cannot read {path}: remove it, and that seed begins anew ({type(error).__name__})") from error

    def tick(self, lockstep: Lockstep) -> None:
        """After a block."""
        now = time.monotonic()
        if now - self._saved > SAVED_EVERY:
            self._saved = now
            self._save(lockstep)
        if now - self._said > SAID_EVERY:
            self._said = now
            rate = (lockstep.steps - self._from) / (now - self._began)
            left = (self._steps - lockstep.steps) / rate
            said = f"seed {self._seed}: step {lockstep.steps:,} of {self._steps:,}, {rate:,.0f} a second, {left:,.0f} s left"
            self._out.print(said, markup=False)

    def done(self) -> None:
        """The seed is recorded."""
        (self._folder / FILE).unlink(missing_ok=True)

    def _save(self, lockstep: Lockstep) -> None:
        part = self._folder / f".{FILE}.part"
        try:
            torch.save({"seed": self._seed, "lockstep": lockstep.kept()}, part)
            os.replace(part, self._folder / FILE)
        except OSError as error:
            raise unwritable(self._folder / FILE, error) from error
