"""Synchronisation protocols of the specialized decode as small programs, and all their interleavings.

``system``     memory cells, threads and their instructions      ``state``      what one step does, under weak memory
``explorer``   every interleaving, or random ones                ``schedule``   a counterexample: minimal, printed, replayed
``protocols``  one file a protocol, with its planted faults      ``gpu``        the same through vLLM's own kernels
"""
