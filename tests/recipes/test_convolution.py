"""The recipe of convolutions: what it commands, that it is proven and right at any size, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import some
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.convolution import PixelTiles

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
#: Few registers make the smallest tiles, so that there is less code of the same kinds.
FEW = Cpu(vector_bytes=16, registers=6, first=32 << 10, second=256 << 10)
SIZES = [(1, 1, 1, 1, 1), (2, 5, 17, 3, 33), (1, 15, 3, 17, 5), (1, 3, 14, 65, 32)]
P, H, W, C, F = tm.params("P H W C F")
p, y, x, c, f, r, s = tm.iters("p y x c f r s")


@dataclass(frozen=True)
class Shape:
    """The taps of a filter, its stride and dilation, and whether the picture is padded with zeros."""

    rows: int = 3
    columns: int = 3
    stride: int = 1
    dilation: int = 1
    padded: bool = True
    depthwise: bool = False
    order: str = "rscf"

    @property
    def reach(self) -> tuple[int, int]:
        """The distances between the first and the last tap."""
        return self.dilation * (self.rows - 1), self.dilation * (self.columns - 1)


CASES = {
    "plain": Shape(),
    "not padded": Shape(padded=False),
    "5 x 1": Shape(5, 1),
    "stride 2": Shape(stride=2),
    "dilation 2": Shape(2, 3, dilation=2, padded=False),
    "filters first": Shape(order="fcrs"),
    "depthwise": Shape(depthwise=True),
    "depthwise, stride 2": Shape(5, 5, stride=2, depthwise=True),
    "depthwise, not padded": Shape(depthwise=True, padded=False),
}


def program(shape: Shape) -> tuple[tm.Function, tm.Computation]:
    """A convolution with bias and ReLU, of a picture that has room for all taps, padded or not."""
    fn = tm.Function("conv", params=[P, H, W, C, F], assume="P >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    down, right = shape.reach
    rows, columns = shape.stride * (H - 1) + 1 + down, shape.stride * (W - 1) + 1 + right
    last = C if shape.depthwise else F
    border = 1 if shape.padded else 0
    picture = fn.input("picture", tm.float32, [P, rows - 2 * border, columns, C])
    lengths = {"r": shape.rows, "s": shape.columns, "c": C, "f": F}
    named = {"r": r, "s": s, "c": c, "f": f}
    order = shape.order.replace("f", "") if shape.depthwise else shape.order
    weights = fn.input("weights", tm.float32, [lengths[name] for name in order])
    bias = fn.input("bias", tm.float32, [last])
    source: Any = picture
    if shape.padded:
        inside = (y >= 1) & (y < rows - 1)
        source = fn.computation(
            "padded", {p: P, y: rows, x: columns, c: C}, tm.select(inside, picture[p, y - 1, x, c], np.float32(0))
        )
    g = c if shape.depthwise else f
    over = {r: shape.rows, s: shape.columns} | ({} if shape.depthwise else {c: C})
    read = source[p, shape.stride * y + shape.dilation * r, shape.stride * x + shape.dilation * s, c]
    total = fn.reduction(
        "total", {p: P, y: H, x: W, g: last}, over, tm.sum, read * weights[tuple(named[name] for name in order)]
    )
    result = fn.computation("result", {p: P, y: H, x: W, g: last}, tm.maximum(total[p, y, x, g] + bias[g], 0))
    fn.outputs(result)
    return fn, result


def given(shape: Shape, size: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, int]]:
    """Small integers, whose sums are exact, and the sizes."""
    pictures, rows, columns, channels, filters = size
    rng = np.random.default_rng(sum(size))
    down, right = shape.reach
    lengths = {"r": shape.rows, "s": shape.columns, "c": channels, "f": filters}
    order = shape.order.replace("f", "") if shape.depthwise else shape.order
    high = shape.stride * (rows - 1) + 1 + down - (2 if shape.padded else 0)
    wide = shape.stride * (columns - 1) + 1 + right
    shapes = {
        "picture": (pictures, high, wide, channels),
        "weights": tuple(lengths[name] for name in order),
        "bias": (channels if shape.depthwise else filters,),
    }
    arrays = {name: rng.integers(-3, 4, each).astype(np.float32) for name, each in shapes.items()}
    return arrays, dict(zip("PHWCF", size, strict=True))


def expected(shape: Shape, size: tuple[int, ...], arrays: dict[str, Any]) -> Any:
    """The same in NumPy, a tap at a time."""
    _, rows, columns, _, _ = size
    picture = np.pad(arrays["picture"], ((0, 0), (1, 1), (0, 0), (0, 0))) if shape.padded else arrays["picture"]
    order = shape.order.replace("f", "") if shape.depthwise else shape.order
    weights = np.transpose(arrays["weights"], [order.index(name) for name in "rscf" if name in order])
    found = 0
    for i in range(shape.rows):
        for j in range(shape.columns):
            top, left = i * shape.dilation, j * shape.dilation
            part = picture[:, top :: shape.stride, left :: shape.stride][:, :rows, :columns]
            found = found + (part * weights[i, j] if shape.depthwise else part @ weights[i, j])
    return np.maximum(found + arrays["bias"], 0)


def is_plain(each: tuple[str, Cpu]) -> bool:
    """Whether a plain run tries it: each case with small tiles, one with those of processors."""
    return each[0] == "plain" or each[1] is FEW


@pytest.mark.parametrize(
    ("case", "cpu"), some([(case, cpu) for case in CASES for cpu in (WIDE, NARROW, FEW)], is_plain)
)
def test_a_convolution_is_right_at_any_size(case: str, cpu: Cpu) -> None:
    shape = CASES[case]
    fn, result = program(shape)
    tm.recipes.convolution(result, cpu=cpu)
    kernel = fn.compile(threads=2)
    for size in SIZES:
        if shape.stride * (size[1] - 1) + 1 + shape.reach[0] >= 2:
            arrays, sizes = given(shape, size)
            np.testing.assert_array_equal(kernel(**arrays, **sizes), expected(shape, size, arrays))


@pytest.mark.parametrize("case", some([case for case in CASES if not CASES[case].depthwise], "not padded".__eq__))
def test_blocks_of_channels_are_shared_by_threads(case: str) -> None:
    shape = CASES[case]
    fn, result = program(shape)
    text = tm.recipes.convolution(result, cpu=FEW, sizes={"parts": 3, "rows": 2})
    assert "total.update.parallelize(c0, combine=tm.PRIVATE, threads=3)" in text
    g, _ = program(shape)
    exec(text, {"tm": tm, "f": g})
    assert list(map(str, g.commands)) == list(map(str, fn.commands))
    kernel = fn.compile(threads=4)
    for size in ((1, 2, 2, 1, 1), (2, 5, 17, 3, 9), (1, 3, 5, 257, 6)):  # one block of channels, and five for three
        arrays, sizes = given(shape, size)
        np.testing.assert_array_equal(kernel(**arrays, **sizes), expected(shape, size, arrays))


def test_the_space_has_the_sizes_of_the_recipe() -> None:
    shared = {"plain": ["parts", "threads"], "depthwise": ["threads"]}
    for case, more in shared.items():
        for cores in (1, 4):
            fn, result = program(CASES[case])
            cpu = replace(WIDE, cores=cores)
            space = tm.recipes.convolution_space(result, cpu=cpu)
            assert list(space) == ["rows", "pixels", "channels", *(more if cores > 1 else [])]
            own = PixelTiles.of(fn["total"], cpu, depthwise=case == "depthwise")
            assert all(getattr(own, name) in space[name] for name in ("rows", "pixels", "channels"))
            tm.recipes.convolution(result, cpu=cpu, sizes={name: values[-1] for name, values in space.items()})
            assert fn.check().ok


def test_sizes_are_those_of_the_caller() -> None:
    _, result = program(CASES["plain"])
    text = tm.recipes.convolution(result, cpu=WIDE, sizes={"pixels": 6, "channels": 64, "threads": 1})
    assert "result.tile(x, f_, 6, 64, x0, f0, x1, f1)" in text and "result.split(y, 14, y0, y1)" in text
    assert "result.parallelize(p, y0, threads=1)" in text


@pytest.mark.parametrize(
    ("case", "sizes", "said"),
    [
        ("plain", {"lanes": 8}, "no size 'lanes' here: there are rows, pixels, channels, parts, threads"),
        ("plain", {"pixels": 0}, "pixels is 0"),
        ("depthwise", {"parts": 2}, "parts is 2, and total sums over no channels: parts are of the channels"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(case: str, sizes: dict[str, int], said: str) -> None:
    fn, result = program(CASES[case])
    with pytest.raises(ArgumentError, match=said):
        tm.recipes.convolution(result, sizes=sizes)
    assert fn.commands == ()


def test_its_text_makes_the_same_schedule_again() -> None:
    for case in ("plain", "not padded", "depthwise"):
        fn, result = program(CASES[case])
        text = tm.recipes.convolution(result, cpu=WIDE)
        g, _ = program(CASES[case])
        exec(text, {"tm": tm, "f": g})
        assert list(map(str, g.commands)) == list(map(str, fn.commands))


def test_sizes_fit_registers() -> None:
    fn, _ = program(CASES["plain"])
    assert PixelTiles.of(fn["total"], WIDE, depthwise=False) == PixelTiles(rows=14, pixels=14, channels=32, lanes=16)
    for cpu in (WIDE, NARROW):
        for depthwise in (False, True):
            found = PixelTiles.of(fn["total"], cpu, depthwise)
            vectors = found.channels // found.lanes
            assert found.pixels * vectors + vectors + 1 <= cpu.registers


def refused(result: Any) -> str:
    with pytest.raises(ArgumentError) as error:
        tm.recipes.convolution(result)
    return str(error.value)


Change = Callable[[tm.Function, tm.Input, tm.Input], Any]


def reader(fn: tm.Function, total: Any) -> Any:
    """A computation that reads sums at its own iterators."""
    return fn.computation(f"of_{total}", {p: P, y: H, x: W, f: F}, total[p, y, x, f] + 1)


def summed(fn: tm.Function, name: str, term: Any, op: Any = tm.sum) -> Any:
    """Sums over taps and channels."""
    return fn.reduction(name, {p: P, y: H, x: W, f: F}, {r: 3, s: 3, c: C}, op, term)


def test_what_is_no_convolution_is_refused_with_the_reason() -> None:
    fn = tm.Function("other", params=[P, H, W, C, F])
    a = fn.input("a", tm.float32, [P, H + 2, W + 2, C])
    first = fn.input("first", tm.float32, [P, C, H + 2, W + 2])
    w = fn.input("w", tm.float32, [3, 3, C, F])
    right = summed(fn, "right", a[p, y + r, x + s, c] * w[r, s, c, f])
    assert "is the sum itself" in refused(right)
    assert "reads 0 sums" in refused(fn.computation("none", {p: P}, tm.cast(tm.float32, p)))
    largest = summed(fn, "largest", a[p, y + r, x + s, c] * w[r, s, c, f], tm.max)
    assert "not a sum" in refused(reader(fn, largest))
    added = summed(fn, "added", a[p, y + r, x + s, c] + w[r, s, c, f])
    assert "products of two reads" in refused(reader(fn, added))
    planes = summed(fn, "planes", first[p, c, y + r, x + s] * w[r, s, c, f])
    assert "channels are the last index" in refused(reader(fn, planes))
    backwards = summed(fn, "backwards", a[p, H - 1 - y + r, x + s, c] * w[r, s, c, f])
    assert "stride * y" in refused(reader(fn, backwards))
    shifted = fn.computation("shifted", {p: P, y: H - 1, x: W, f: F}, right[p, y + 1, x, f] + 1)
    assert "own iterators" in refused(shifted)
    twice = fn.computation("twice", {p: P, y: H, x: W, f: F}, right[p, y, x, f] * 2)
    assert "not only read by twice" in refused(twice)
    assert fn.commands == ()


def test_a_convolution_that_has_been_scheduled_is_refused() -> None:
    fn, result = program(CASES["plain"])
    result.split(y, 4, *tm.iters("y0 y1"))
    assert "scheduled already" in refused(result)
    assert len(fn.commands) == 1
