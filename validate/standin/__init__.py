"""The stand-in: a small Kimi-K3-shaped network that vLLM's real engine runs on a CPU, where K3 itself cannot be.

Its default path is plain torch; its specialized decode emulates the rounding points and orders of summation of vLLM's, scaled
to its own sizes. What the engine does around it (scheduler, hybrid cache, sampler, prefix caching, chunked prefill) is vLLM's
own. What it shows about an engine and about the suite is real; about vLLM's K3 kernels it shows nothing.

``network``      the layers, shared by training and the engine      ``forms``      the default path's arithmetic
``recurrence``   KDA's recurrence, by token and by chunk            ``specialized``  the specialized decode's
``weights``      names, first values, files                         ``training``   from which the practice model comes
``vllm_model``   the model as vLLM runs it                          ``plugin``     how vLLM finds it
"""
