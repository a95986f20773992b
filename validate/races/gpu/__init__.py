"""The protocols through vLLM's own kernels, on one GPU of compute capability 9.0, under adversarial timing.

``kernels``      one file each: a kernel of vLLM's bound to memory     ``adversaries``  one file each: what delays or crowds it
``faults``       changes to vLLM's files that take a fix out           ``stalls``       changes that place a delay
``plan``         which kernel meets which adversary, and its control   ``trial``        repeats, and what is compared
``device``       the suite's own kernels                               ``child``        a trial in a process that may hang
``judging``      verdicts, without a GPU                               ``sanitizer``    compute-sanitizer's sessions

A trial is the fixed kernel, which must be right each time, and beside it its control: the same on a copy of vLLM's file without
the fix, which must be wrong at least once, or the trial proves nothing.
"""
