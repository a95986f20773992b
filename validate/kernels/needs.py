"""What the build check takes from this environment. Nothing of it is imported to find out."""

import importlib.util

COMPILERS = {"cutlass": "nvidia-cutlass-dsl[cu13]==4.8.0", "tvm_ffi": "apache-tvm-ffi==0.1.15.post2"}
# Of these vLLM's kernels import few files: they are installed without what they depend on.
FILES = {
    "flashinfer": "flashinfer-python==0.7.2.post1",
    "quack": "quack-kernels==0.6.5",
    "tokenspeed_mla": "tokenspeed_mla==2.0.3",
}


def missing() -> list[str]:
    """The distributions that compiling needs and this environment lacks, each as pip is asked for it."""
    wanted = COMPILERS | {name: f"{pip} (--no-deps)" for name, pip in FILES.items()}
    return [pip for name, pip in wanted.items() if importlib.util.find_spec(name) is None]
