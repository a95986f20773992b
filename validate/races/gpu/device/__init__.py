"""The suite's own kernels on a GPU: they delay, crowd and poison vLLM's. CuTe DSL; one file each.

Each file's ``compiled()`` returns a launch: memory is handed over as addresses (``Tensor.data_ptr()``), counts and times as
numbers, the stream last. None of them waits for anything but time, so each ends by itself.
"""
