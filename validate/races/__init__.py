"""Synchronisation protocols of the specialized decode as small programs, and all their interleavings.

``system``     memory cells, threads and their instructions      ``state``      what one step does, under weak memory
``explorer``   every interleaving, or random ones                ``schedule``   a counterexample: minimal, printed, replayed
``protocols``  one file a protocol, with its planted faults      ``mbarrier``   a CTA's mbarrier as one cell
"""
