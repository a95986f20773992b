"""State drift: KDA's recurrent state of both paths over 100,000 decode steps, beside float64.

The state is the one thing of a KDA layer that outlives a step. A step's error stays in it, multiplied by what the step keeps of
the state (decay times ``I - beta k k^T``, no more than 1), and the next step adds its own. So errors are bounded where the state
forgets, and a fault that happens once in thousands of steps, or adds less than a rounding to each, shows in no test of single
steps.

- ``heads``: the heads' decays, from a memory of two steps to one of tens of thousands; ``stream``: their inputs
- ``subject``: a path's own recurrence on the stream; ``yardstick``: the float64 one
- ``bound``: how far a sound one may be off it
- ``lockstep``: all of them, a step at a time; ``track``: what is kept of the errors
- ``acceptance``: the rules; ``run`` and ``command``: a record of them; ``detection``: planted faults

What was shrunk changes no result: rows of the state (value channels) never mix in the recurrence, so ``stream.VALUES`` of 128 are
as good as all; heads never mix either, so ``heads.HEADS`` of them stand for a rank's 12 (TP8) or 6 (TP16). The keys have their
real width, over which sums are ordered. The specialized kernel sums a row of the state by 8 or by 16 lanes, as TP and batch ask
for: both orders give the same bits (``tests/long_output/drift/test_subject.py``), so one is run. The gate's projection, the
convolution's taps and the gated norm keep nothing from step to step beyond three tokens: ``nox -s numerics`` judges them, and
the projected gate is drawn here.
"""
