"""The recipe of convolutions of planes (NCHW): proven, and right for any filter, stride, dilation and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.test_convolution import FEW, is_plain
from tests.sanitizers import check_clean
from tests.selection import some
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.convolution import PlaneTiles

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
SIZES = [(1, 1, 1, 1, 1), (2, 5, 17, 3, 7), (1, 15, 3, 17, 5), (1, 3, 65, 2, 6), (1, 2, 49, 1, 13)]
P, H, W, C, F = tm.params("P H W C F")
p, y, x, c, f, r, s = tm.iters("p y x c f r s")


@dataclass(frozen=True)
class Planes:
    """The taps of a filter, its stride and dilation, whether the picture is padded, and the order of the weights."""

    rows: int = 3
    columns: int = 3
    stride: int = 1
    dilation: int = 1
    padded: bool = True
    order: str = "fcrs"

    @property
    def reach(self) -> tuple[int, int]:
        """The distances between the first and the last tap."""
        return self.dilation * (self.rows - 1), self.dilation * (self.columns - 1)


CASES = {
    "plain": Planes(),
    "not padded": Planes(padded=False),
    "1 x 1": Planes(1, 1, padded=False),
    "5 x 1": Planes(5, 1),
    "stride 2": Planes(stride=2),
    "stride 3, not padded": Planes(2, 5, stride=3, padded=False),
    "dilation 2": Planes(2, 3, dilation=2, padded=False),
    "stride 2, dilation 3": Planes(3, 2, stride=2, dilation=3),
    "filters last": Planes(order="rscf"),
}


def program(shape: Planes) -> tuple[tm.Function, tm.Computation]:
    """A convolution with bias and ReLU, of a picture that has room for all taps, padded or not."""
    fn = tm.Function("planes", params=[P, H, W, C, F], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    down, right = shape.reach
    rows, columns = shape.stride * (H - 1) + 1 + down, shape.stride * (W - 1) + 1 + right
    border = 1 if shape.padded else 0
    picture = fn.input("picture", tm.float32, [P, C, rows - 2 * border, columns])
    lengths: dict[str, Any] = {"r": shape.rows, "s": shape.columns, "c": C, "f": F}
    weights = fn.input("weights", tm.float32, [lengths[name] for name in shape.order])
    bias = fn.input("bias", tm.float32, [F])
    source: Any = picture
    if shape.padded:
        inside = (y >= 1) & (y < rows - 1)
        value = tm.select(inside, picture[p, c, y - 1, x], np.float32(0))
        source = fn.computation("padded", {p: P, c: C, y: rows, x: columns}, value)
    named = {"r": r, "s": s, "c": c, "f": f}
    read = source[p, c, shape.stride * y + shape.dilation * r, shape.stride * x + shape.dilation * s]
    terms = read * weights[tuple(named[name] for name in shape.order)]
    over = {c: C, r: shape.rows, s: shape.columns}
    total = fn.reduction("total", {p: P, f: F, y: H, x: W}, over, tm.sum, terms)
    result = fn.computation("result", {p: P, f: F, y: H, x: W}, tm.maximum(total[p, f, y, x] + bias[f], 0))
    fn.outputs(result)
    return fn, result


def given(shape: Planes, size: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, int]]:
    """Small integers, whose sums are exact, and the sizes."""
    pictures, rows, columns, channels, filters = size
    rng = np.random.default_rng(sum(size))
    down, right = shape.reach
    lengths = {"r": shape.rows, "s": shape.columns, "c": channels, "f": filters}
    high = shape.stride * (rows - 1) + 1 + down - (2 if shape.padded else 0)
    wide = shape.stride * (columns - 1) + 1 + right
    shapes = {
        "picture": (pictures, channels, high, wide),
        "weights": tuple(lengths[name] for name in shape.order),
        "bias": (filters,),
    }
    arrays = {name: rng.integers(-3, 4, each).astype(np.float32) for name, each in shapes.items()}
    return arrays, dict(zip("PHWCF", size, strict=True))


def expected(shape: Planes, size: tuple[int, ...], arrays: dict[str, Any]) -> Any:
    """The same in NumPy, a tap at a time."""
    _, rows, columns, _, _ = size
    border = 1 if shape.padded else 0
    picture = np.pad(arrays["picture"], ((0, 0), (0, 0), (border, border), (0, 0)))
    weights = np.transpose(arrays["weights"], [shape.order.index(name) for name in "rsfc"])
    found: Any = 0
    for i in range(shape.rows):
        for j in range(shape.columns):
            top, left = i * shape.dilation, j * shape.dilation
            part = picture[:, :, top :: shape.stride, left :: shape.stride][:, :, :rows, :columns]
            found = found + np.einsum("pchw,fc->pfhw", part, weights[i, j])
    return np.maximum(found + arrays["bias"][:, None, None], 0)


def compare(kernel: tm.Kernel, shape: Planes) -> None:
    for size in SIZES:
        if shape.stride * (size[1] - 1) + 1 + shape.reach[0] >= 2 * shape.padded:
            arrays, sizes = given(shape, size)
            np.testing.assert_array_equal(kernel(**arrays, **sizes), expected(shape, size, arrays))


@pytest.mark.parametrize(
    ("case", "cpu"), some([(case, cpu) for case in CASES for cpu in (WIDE, NARROW, FEW)], is_plain)
)
def test_a_convolution_of_planes_is_right_at_any_size(case: str, cpu: Cpu) -> None:
    fn, result = program(CASES[case])
    tm.recipes.convolution(result, cpu=cpu)
    compare(fn.compile(threads=2), CASES[case])


def test_planes_are_clean_under_the_sanitizers() -> None:
    check_clean("tests.recipes.planes_under_sanitizers")


def test_its_text_makes_the_same_schedule_again() -> None:
    for case in ("plain", "not padded"):
        fn, result = program(CASES[case])
        text = tm.recipes.convolution(result, cpu=WIDE)
        g, _ = program(CASES[case])
        exec(text, {"tm": tm, "f": g})
        assert list(map(str, g.commands)) == list(map(str, fn.commands))


def test_sizes_of_tiles_of_planes_fit_registers() -> None:
    fn, _ = program(CASES["plain"])
    assert PlaneTiles.of(fn["total"], WIDE) == PlaneTiles(rows=14, channels=14, pixels=32, lanes=16)
    for cpu in (WIDE, NARROW):
        found = PlaneTiles.of(fn["total"], cpu)
        vectors = found.pixels // found.lanes
        assert found.channels * vectors + vectors + 1 <= cpu.registers


def test_planes_that_are_not_summed_over_channels_are_refused() -> None:
    fn = tm.Function("depthwise", params=[P, H, W, C])
    picture, w = fn.input("picture", tm.float32, [P, C, H + 2, W + 2]), fn.input("w", tm.float32, [C, 3, 3])
    total = fn.reduction(
        "total", {p: P, c: C, y: H, x: W}, {r: 3, s: 3}, tm.sum, picture[p, c, y + r, x + s] * w[c, r, s]
    )
    result = fn.computation("result", {p: P, c: C, y: H, x: W}, total[p, c, y, x] + 1)
    with pytest.raises(ArgumentError, match=r"are summed and come before rows and columns \(NCHW\)"):
        tm.recipes.convolution(result)
    assert fn.commands == ()
