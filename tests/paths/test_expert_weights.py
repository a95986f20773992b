"""The experts' weights as the kernels read them: against vLLM's own preparation, and against how the kernels address them."""

import ast
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from validate.model.dimensions import K3
from validate.model.draws import Draws
from validate.model.microscaling import Packed, packed_weight
from validate.paths.vllm import expert_weights
from validate.reference.microscaling import E2M1, e8m0, mxfp4

ORACLE = "vllm/model_executor/layers/fused_moe/oracle/mxfp4.py"
BACKENDS = (  # those that the conversion asks for before it comes to this one
    *("CUTLASS_MXFP4_MXFP4", "DEEPGEMM_MXFP4", "HUMMING", "MARLIN", "BATCHED_MARLIN"),
    "FLASHINFER_TRTLLM_MXFP4_MXFP8",
)
EXPERTS = 2
LATENT = 512  # instead of 3584: two stages of FC1
NAMES = ("w13", "s13", "w2", "s2")
Weights = tuple[Tensor, Tensor, Tensor, Tensor]
paired = expert_weights.paired


def drawn(width: int, latent: int = LATENT) -> tuple[Packed, Packed]:
    """W13 and W2 of two experts with ``width`` hidden channels of a rank."""
    draws = Draws("expert weights", width, latent)

    def stacked(rows: int, columns: int) -> Packed:
        found = [packed_weight(draws, rows, columns, -7) for _ in range(EXPERTS)]
        return Packed(torch.stack([w.codes for w in found]), torch.stack([w.scales for w in found]))

    return stacked(2 * width, latent), stacked(latent, width)


def function(file: Path, *names: str, **namespace: Any) -> dict[str, Any]:
    """Functions and constants of a file that cannot be imported here, without their annotations."""
    wanted = []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            for argument in ast.walk(node):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            node.returns, node.decorator_list = None, []
            wanted.append(node)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in node.targets):
            wanted.append(node)
    assert len(wanted) == len(names), names
    namespace["torch"] = torch
    exec(compile(ast.Module(wanted, []), str(file), "exec"), namespace)
    return namespace


def vllms_layout(w13: Packed, w2: Packed, root: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """vLLM's own conversion of weights that were loaded into parameters of padded size, with FlashInfer's row orders.

    FlashInfer tiles scales by a CUDA kernel. Here its own reading of that layout, in torch, is inverted.
    """
    spec = PathFinder.find_spec("flashinfer")  # not a stand-in that another test has left
    if spec is None or spec.origin is None:
        pytest.skip("FlashInfer's files are not installed")
    flashinfer = Path(spec.origin).parent
    rows = ("get_shuffle_block_size", "get_shuffle_matrix_a_row_indices", "get_shuffle_matrix_sf_a_row_indices")
    utils = function(flashinfer / "utils.py", "srcToDstBlk16RowMap", "srcToDstBlk32RowMap", *rows)
    permute = function(flashinfer / "fused_moe/core.py", "get_w2_permute_indices_with_cache", Union=None, **utils)
    untile = function(flashinfer / "trace/templates/gemm.py", "_unswizzle_batched_sf_128x4")["_unswizzle_batched_sf_128x4"]

    def interleave(scales: Tensor) -> Tensor:
        place = untile(torch.arange(scales.numel()), 1, *scales.shape)[0]
        return torch.empty_like(scales).view(-1).scatter_(0, place.flatten(), scales.flatten())

    modules = {
        "flashinfer.fp4_quantization": SimpleNamespace(nvfp4_block_scale_interleave=interleave),
        "flashinfer.fused_moe.core": SimpleNamespace(**{n: f for n, f in permute.items() if n.startswith("get_w2")}),
    }
    packages = {name: SimpleNamespace(__path__=[]) for name in ("flashinfer", "flashinfer.fused_moe")}
    for name, module in (packages | modules).items():
        monkeypatch.setitem(sys.modules, name, module)
    backends = SimpleNamespace(**{name: name for name in BACKENDS})
    convert = function(
        root / ORACLE,
        "convert_weight_to_mxfp4_moe_kernel_format",
        Mxfp4MoeBackend=backends,
        TRTLLM_BACKENDS=(backends.FLASHINFER_TRTLLM_MXFP4_MXFP8,),
        B12X_BACKENDS=(),
        current_platform=SimpleNamespace(is_rocm=lambda: False),
    )["convert_weight_to_mxfp4_moe_kernel_format"]
    width = w13.codes.shape[1] // 2
    padded = -(-width // 128) * 128

    def loaded(weight: Packed, rows: int, columns: int) -> list[Tensor]:
        return [torch.zeros(EXPERTS, rows, n, dtype=torch.uint8) for n in (columns // 2, columns // 32)]

    first, second = loaded(w13, 2 * padded, LATENT), loaded(w2, LATENT, padded)
    for parameter, part in zip(first, (w13.codes, w13.scales), strict=True):  # routed_experts.py ``_load_w13``
        parameter[:, :width], parameter[:, padded : padded + width] = part[:, :width], part[:, width:]
    for parameter, part in zip(second, (w2.codes, w2.scales), strict=True):
        parameter[..., : part.shape[-1]] = part
    found = convert(
        backends.FLASHINFER_TRTLLM_MXFP4_MXFP8, None, first[0], second[0], first[1], second[1], _cache_permute_indices={}
    )
    w13_codes, w2_codes, w13_scales, w2_scales = (tensor.view(torch.uint8) for tensor in found[:4])
    return w13_codes, w13_scales, w2_codes, w2_scales


@pytest.mark.parametrize("width", [384, 192], ids=["tp8", "tp16"])
def test_it_is_what_vllm_makes(width: int, vllm_source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w13, w2 = drawn(width)
    theirs = vllms_layout(w13, w2, vllm_source, monkeypatch)
    for name, ours, wanted in zip(NAMES, expert_weights.laid_out(w13, w2), theirs, strict=True):
        assert ours.shape == wanted.shape, name
        assert torch.equal(ours, wanted), name


class Kernel:
    """Reads the flat memory as the kernels do (vLLM 0.33.0, cutedsl/moe/experts.py ``stream``, ``store_hidden``, ``fc2``).

    A box is 128 rows of 128 elements, at (64 bytes times chunk, row); its scales are 512 bytes, in which lane i finds the four
    bytes of row i + 32 j at 16 i + 4 j. A row is a lane of the accumulator, of which a warp has 32. At TP16 W2's second chunk
    begins 32 bytes after the first, and its upper half is used: byte 64 again.
    """

    def __init__(self, weights: Weights, latent: int) -> None:
        w13, s13, w2, s2 = weights
        self.rows13, self.latent, self.channels = w13.shape[1], latent, 2 * w2.shape[2]
        self.w13, self.s13, self.w2, self.s2 = (tensor.contiguous().view(-1) for tensor in (w13, s13, w2, s2))

    def element(self, codes: Tensor, scales: Tensor, row: int, k: int, pitch: int, tile_scales: int) -> float:
        """One element of the row whose box begins at ``row - row % 128``; ``tile_scales``: where that box's scales begin."""
        byte = int(codes[row * pitch + k // 128 * 64 + k % 128 // 2])
        lane, quarter = row % 128 % 32, row % 128 // 32
        scale = scales[tile_scales + k // 128 * 512 + 16 * lane + 4 * quarter + k // 32 % 4]
        return float(E2M1[byte >> 4 if k % 2 else byte & 15] * e8m0(scale))

    def fc1(self, expert: int, channel: int, k: int) -> tuple[float, float]:
        """Gate and up weight of a hidden channel: warp ew of tile r packs its lanes' channels as ``2 (l % 8) + l / 16``."""
        r, ew, place = channel // 64, channel % 64 // 16, channel % 16
        lane = next(n for n in range(32) if n & 8 == 0 and 2 * (n % 8) + n // 16 == place)
        row = expert * self.rows13 + r * 128 + 32 * ew + lane
        tile = expert * self.rows13 * (self.latent // 32) + r * 128 * (self.latent // 32)
        up, gate = (
            self.element(self.w13, self.s13, at, k, self.latent // 2, tile) for at in (row, row + 8)
        )  # ``shuffle_sync_bfly(values, 8)``
        return gate, up

    def fc2(self, expert: int, column: int, k: int) -> float:
        """The weight of a column: a lane without bit 8 stores its own and the next lane group's, ``4 (l % 8) + l / 8``."""
        tile, ew, place = column // 128, column % 128 // 32, column % 32
        lane = next(n for n in range(32) if 4 * (n % 8) + n // 8 == place)
        row = expert * self.latent + tile * 128 + 32 * ew + lane
        scales = expert * self.latent * (self.channels // 32) + tile * 128 * (self.channels // 32)
        return self.element(self.w2, self.s2, row, k, self.channels // 2, scales)


def misread(weights: Weights, w13: Packed, w2: Packed) -> int:
    """How many of some elements the kernels find in another place than the weights have them."""
    width, latent = w13.codes.shape[1] // 2, w2.codes.shape[1]
    kernel = Kernel(weights, latent)
    generator = torch.Generator().manual_seed(0)
    picks = torch.randint(0, 1 << 30, (200, 4), generator=generator).tolist()
    gate_up, down = ([mxfp4(*one) for one in zip(weight.codes, weight.scales, strict=True)] for weight in (w13, w2))
    wrong = 0
    for expert, channel, column, k in picks:
        e, c, n = expert % EXPERTS, channel % width, column % latent
        wrong += kernel.fc1(e, c, k % latent) != (gate_up[e][c, k % latent], gate_up[e][width + c, k % latent])
        wrong += kernel.fc2(e, n, k % width) != down[e][n, k % width]
    return wrong


@pytest.mark.parametrize("width", [384, 192], ids=["tp8", "tp16"])
def test_the_kernels_find_every_element(width: int) -> None:
    w13, w2 = drawn(width)
    assert misread(expert_weights.laid_out(w13, w2), w13, w2) == 0


def rows_of_16(rows: Tensor) -> Tensor:
    """The order for another epilogue tile than 128."""
    return rows.unflatten(1, (-1, 8, 2)).transpose(2, 3).flatten(1, 3)


def swapped(both: Tensor) -> Tensor:
    return both.unflatten(1, (2, -1)).flip(1).flatten(1, 2)


def at_the_end(both: Tensor, missing: int) -> Tensor:
    return torch.nn.functional.pad(both, (0, 0, 0, 2 * missing))


def rows_first(scales: Tensor) -> Tensor:
    pieces = scales.unflatten(2, (-1, 4)).unflatten(1, (-1, 32, 4))
    return pieces.permute(0, 1, 4, 2, 3, 5).reshape(scales.shape)


MISTAKES: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "rows unshuffled": ("shuffled", lambda rows: rows),
    "rows of 16": ("shuffled", rows_of_16),
    "gate first": ("paired", lambda both, missing: paired(swapped(both), missing)),
    "gates after ups": ("paired", lambda both, missing: at_the_end(swapped(both), missing)),
    "padding after both halves": ("paired", lambda both, missing: paired(at_the_end(both, missing), 0)),
    "scales untiled": ("tiled", lambda scales: scales),
    "scales of neighbouring rows": ("tiled", rows_first),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_layout_is_seen_by_both(mistake: str, vllm_source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w13, w2 = drawn(192)
    theirs = vllms_layout(w13, w2, vllm_source, monkeypatch)
    monkeypatch.setattr(expert_weights, *MISTAKES[mistake])
    wrong = expert_weights.laid_out(w13, w2)
    assert not all(torch.equal(a, b) for a, b in zip(wrong, theirs, strict=True))
    assert misread(wrong, w13, w2) > 20


def test_few_experts_lie_between_others_that_are_nan() -> None:
    places = expert_weights.places(24)
    assert places[[0, -1]].tolist() == [0, K3.experts - 1]
    assert (places.diff() > 1).all()
    held = torch.arange(48, dtype=torch.uint8).view(24, 2)
    everywhere = expert_weights.spread(held, places)
    assert everywhere.shape == (K3.experts, 2)
    assert torch.equal(everywhere[places], held)
    others = torch.ones(K3.experts, dtype=torch.bool)
    others[places] = False
    assert e8m0(everywhere[others]).isnan().all()
