"""Synchronisation protocols of the specialized decode as small programs, and all their interleavings.

``system``     memory cells, threads and their instructions      ``machine``    what one step does, under weak memory
``explorer``   every interleaving, or random ones                ``reduction``  which steps are enough to look at
``schedule``   a counterexample: minimal, printed, replayed      ``mbarrier``   a CTA's mbarrier as one cell
``protocols``  one file a protocol, with its planted faults      ``gpu``        the same through vLLM's own kernels
"""
