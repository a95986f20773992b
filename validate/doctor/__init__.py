"""What this machine can validate, and what of a deployment would run specialized. Nothing is run to find out.

``layers``    each layer and what it takes              ``packages``    distributions, by pyproject.toml
``machine``   GPU, programs, memory, disk               ``data``        the benchmarks' data sets
``command``   ``python -m validate doctor``             ``report``      what is printed

``deployment``  a user's engine arguments               ``own``         vLLM's own check and plan, run from its files
``graphs``      the CUDA graphs that are captured       ``steps``       which steps run specialized
"""

VLLM = "0.33.0"  # that is validated (paths/vllm/source.py), here without what that module imports
