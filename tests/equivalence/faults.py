"""The toy engine's planted faults: what goes wrong in state, cache or logits, where, and for how long."""

import numpy as np

from tests.equivalence.toy import BLOCK, KEEP, VOCABULARY, WIDTH, Fault, Run


def stale_after_preemption(run: Run, generator: np.random.Generator) -> None:
    """Two requests of one scene go on from another request's state."""
    if run.scene == "preempted" and run.number < 2 and run.position == 20:
        run.state = generator.normal(size=WIDTH) * 1.6


def prefix_of_wrong_block(run: Run, generator: np.random.Generator) -> None:
    """Requests with a cached prefix start from the state before the last block."""
    if run.scene == "prefix" and run.number % 2 and run.position == 0:
        run.state = generator.normal(size=WIDTH) * 1.6


def padded_row_written(run: Run, generator: np.random.Generator) -> None:
    """A padded row is written to the slot of one live request."""
    if run.scene == "eight" and run.number == 3 and run.position == 30:
        run.state = run.state + generator.normal(size=WIDTH)


def after_partial_acceptance(run: Run, generator: np.random.Generator) -> None:
    """The state holds a draft that was not accepted, every tenth token."""
    if run.position % 10 == 9:
        run.state = run.state + 0.5 * generator.normal(size=WIDTH)


def fallback_skips_write(run: Run, generator: np.random.Generator) -> None:
    """One step of each request of a scene leaves the state as it was."""
    if run.scene == "recycled" and run.position == 12:
        run.state = (run.state - run.read) / KEEP


def grows(run: Run, generator: np.random.Generator) -> None:
    """An error that each step adds to."""
    run.logits = run.logits + 0.012 * run.position * generator.normal(size=VOCABULARY)


def at_block_boundaries(run: Run, generator: np.random.Generator) -> None:
    """Only the first token of each block is off."""
    if (run.context - 1) % BLOCK == 0:
        run.logits = run.logits + 0.3 * generator.normal(size=VOCABULARY)


def temperature(run: Run, generator: np.random.Generator) -> None:
    """All logits 5 % too large: no greedy token changes."""
    run.logits = run.logits * 1.05


def shifted(run: Run, generator: np.random.Generator) -> None:
    """The decoded token's logit is a little low in all requests: noise that does not average out."""
    run.logits = run.logits - 0.12 * (np.arange(VOCABULARY) == np.argmax(run.logits))


def one_head_one_rounding(run: Run, generator: np.random.Generator) -> None:
    """One direction of the state is rounded once more, to bf16: below the noise of batching."""
    run.state = run.state.copy()
    run.state[0] *= 1 + 2.0**-8


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        stale_after_preemption,
        prefix_of_wrong_block,
        padded_row_written,
        after_partial_acceptance,
        fallback_skips_write,
        grows,
        at_block_boundaries,
        temperature,
        shifted,
        one_head_one_rounding,
    )
}
