"""The families of shapes of Tillet's thesis on one thread, beside OpenBLAS (NumPy's), MKL, and oneDNN (PyTorch's).

python -m benchmarks.size_families FILE [--processor x86-64-v3] [--seconds S] [--points FILE] [--only square,...]

Some points of ours are measured at each shape, those that a model predicts if `--points` has them, as the first call of
a shape does; then the fastest one and the libraries take turns, and the least of the times of each counts. A file keeps
what was measured, so that the same call goes on.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.one_processor import SWITCHES, conditions, named
from benchmarks.common.rounds import THREADS
from benchmarks.common.tables import table
from tiramisu_py.toolchain.compilers.processor import VARIABLE

M, N, K, Z, H, W, C, F = tm.params("M N K Z H W C F")
i, j, k, z, y, x, c, f, r, s = tm.iters("i j k z y x c f r s")
Run = Callable[[], object]
Shape = tuple[int, ...]

PRODUCTS: dict[str, list[Shape]] = {
    "square, 128 to 3072": [(n, n, n) for n in (128, 256, 512, 1024, 2048, 3072)],
    "16 columns, N 256 to 7168": [(n, 16, n) for n in (256, 512, 1024, 2048, 4096, 7168)],
    "64 x 64 x K, K 4096 to 131072": [(64, 64, n) for n in (4096, 8192, 16384, 32768, 65536, 131072)],
}
CONVOLUTIONS: dict[str, list[Shape]] = {
    "56 x 56 pixels, 64 to 1024 channels": [(56, n) for n in (64, 128, 256, 384, 512, 768, 1024)],
    "256 channels, 8 to 256 pixels a side": [(n, 256) for n in (8, 16, 32, 64, 128, 256)],
}
FAMILIES = {**PRODUCTS, **CONVOLUTIONS}
#: Points of products and of convolutions that are tried where no model says more: sizes of the recipes, by lanes.
TILES = [(6, 4), (14, 2), (12, 2), (10, 2), (8, 2), (12, 1)]
NARROW_TILES = [(6, 2), (4, 3), (4, 2), (3, 4), (12, 1), (10, 1)]
PIXELS = [{}, {"pixels": 8}, {"pixels": 6, "channels": 4}, {"rows": 4}, {"rows": 28}]
NARROW_PIXELS = [{}, {"pixels": 3, "channels": 4}, {"pixels": 5}, {"rows": 4}, {"rows": 28}]
ROUNDS, ENOUGH = 3, 0.02
#: The points of a model that are tried, each with both operands copied, and with one alone.
MOST = 3


def lanes() -> int:
    """The lanes of the processor that is measured."""
    return tm.target().lanes(tm.float32)


def product(sizes: Mapping[str, int]) -> tm.Function:
    """A product by the recipe, on one thread."""
    g = tm.Function("product", params=[M, N, K])
    A, B = g.input("A", tm.float32, [M, K]), g.input("B", tm.float32, [K, N])
    sums = g.reduction("C", {i: M, j: N}, {k: K}, tm.sum, A[i, k] * B[k, j])
    g.outputs(sums)
    tm.recipes.matmul(sums, sizes={**sizes, "threads": 1})
    return g


def convolution(sizes: Mapping[str, int]) -> tm.Function:
    """A convolution with 3 x 3 weights of pictures with zeros around them, by the recipe, on one thread."""
    g = tm.Function("conv", params=[Z, H, W, C, F], assume="Z >= 1 and H >= 1 and W >= 1 and C >= 1 and F >= 1")
    a, w = g.input("a", tm.float32, [Z, H, W, C]), g.input("w", tm.float32, [3, 3, C, F])
    inside = (y >= 1) & (y <= H) & (x >= 1) & (x <= W)
    wide = g.computation(
        "wide", {z: Z, y: H + 2, x: W + 2, c: C}, tm.select(inside, a[z, y - 1, x - 1, c], np.float32(0))
    )
    total = g.reduction(
        "total", {z: Z, y: H, x: W, f: F}, {r: 3, s: 3, c: C}, tm.sum, wide[z, y + r, x + s, c] * w[r, s, c, f]
    )
    out = g.computation("out", {z: Z, y: H, x: W, f: F}, total[z, y, x, f])
    g.outputs(out)
    tm.recipes.convolution(out, sizes={**sizes, "threads": 1})
    return g


def points(shape: Shape, listed: Mapping[str, Any]) -> list[dict[str, int]]:
    """The points that are tried at a shape."""
    if len(shape) == 3 and str(shape) in listed:
        found = [dict(each) for each in listed[str(shape)]][:MOST]
        return [*found, *({**each, "copied": 1} for each in found)]
    narrow = lanes() < 16
    if len(shape) == 3:
        tiles = [{"rows": a, "columns": b * lanes()} for a, b in (NARROW_TILES if narrow else TILES)]
        return [{}, *tiles, *({**each, "copied": 1} for each in tiles)]
    return [
        {name: value * (lanes() if name == "channels" else 1) for name, value in each.items()}
        for each in (NARROW_PIXELS if narrow else PIXELS)
    ]


class Ours:
    """Kernels by their points, each compiled once."""

    def __init__(self) -> None:
        self._kernels: dict[str, tm.Kernel] = {}

    def kernel(self, make: Callable[[Mapping[str, int]], tm.Function], sizes: Mapping[str, int]) -> tm.Kernel:
        """The kernel of a point."""
        key = f"{make.__name__} {sorted(sizes.items())}"
        if key not in self._kernels:
            self._kernels[key] = make(sizes).compile(fast=("contract",), threads=1)
        return self._kernels[key]


def operands(shape: Shape) -> tuple[dict[str, Any], Any]:
    """The arrays of a shape, and one for the result."""
    draw = np.random.default_rng(0).random
    if len(shape) == 3:
        m, n, depth = shape
        return {"A": draw((m, depth), np.float32), "B": draw((depth, n), np.float32)}, np.zeros((m, n), np.float32)
    side, channels = shape
    given = {"a": draw((1, side, side, channels), np.float32), "w": draw((3, 3, channels, channels), np.float32)}
    return given, np.zeros((1, side, side, channels), np.float32)


def ours(shape: Shape, made: Ours, listed: Mapping[str, Any], given: Mapping[str, Any], out: Any) -> tuple[Run, str]:
    """The fastest of the points, and its sizes in words."""
    make, name = (product, "C") if len(shape) == 3 else (convolution, "out")
    found = []
    for sizes in points(shape, listed):
        kernel = made.kernel(make, sizes)

        def run(kernel: tm.Kernel = kernel) -> object:
            return kernel(**given, **{name: out})

        run()
        found.append((timed(run), sizes, run))
    _, sizes, best = min(found, key=lambda each: each[0])
    return best, " ".join(f"{name}={value}" for name, value in sizes.items()) or "the recipe's own"


def libraries(shape: Shape, given: Mapping[str, Any], out: Any) -> Iterator[tuple[str, Run]]:
    """The libraries' calls, those that are installed."""
    torch = _module("torch")
    if torch is not None:
        torch.set_num_threads(1)
    if len(shape) == 3:
        yield "OpenBLAS", lambda: np.matmul(given["A"], given["B"], out=out)
        peers = importlib.import_module("benchmarks.linear.peers")
        if peers.mkl() is not None:
            yield "MKL", peers.mkl_product(given, out)
        if torch is not None:
            a, b, result = (torch.from_numpy(each) for each in (given["A"], given["B"], out))
            yield "PyTorch", lambda: torch.mm(a, b, out=result)
    elif torch is not None:
        picture = torch.from_numpy(given["a"].transpose(0, 3, 1, 2))  # NHWC in memory
        weights = torch.from_numpy(np.ascontiguousarray(given["w"].transpose(3, 2, 0, 1)))
        planes, last = picture.contiguous(), weights.contiguous(memory_format=torch.channels_last)
        yield "PyTorch", lambda: torch.nn.functional.conv2d(picture, last, padding=1)
        yield "PyTorch, planes", lambda: torch.nn.functional.conv2d(planes, weights, padding=1)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def timed(run: Run) -> float:
    """The seconds of a call, as the mean of several short ones."""
    calls, start = 0, time.perf_counter()
    while not calls or time.perf_counter() - start < ENOUGH:
        run()
        calls += 1
    return (time.perf_counter() - start) / calls


def by_turns(shape: Shape, made: Ours, listed: Mapping[str, Any]) -> dict[str, Any]:
    """The least times of ours and of the libraries, the results compared."""
    given, out = operands(shape)
    best, sizes = ours(shape, made, listed, given, out)
    runs = {"ours": best, **dict(libraries(shape, given, out))}
    wanted = None
    for name, run in runs.items():
        found = run()
        if not isinstance(found, np.ndarray) and found is not None and hasattr(found, "numpy"):
            found = found.numpy()
            found = found.transpose(0, 2, 3, 1) if found.ndim == 4 else found
        else:
            found = out
        if wanted is None:
            wanted = np.array(found)
        elif not np.allclose(found, wanted, rtol=1e-3):
            raise SystemExit(f"{name} has other values at {shape}")
    times = {name: [timed(run)] for name, run in runs.items()}
    for _ in range(ROUNDS - 1):
        for name, run in runs.items():
            times[name].append(timed(run))
    return {"seconds": {name: min(each) for name, each in times.items()}, "sizes": sizes}


# -- the tables


def told(files: Sequence[Path]) -> str:
    """Geometric means by family and processor, and a row for each shape."""
    means, every = [], []
    for file in files:
        kept = json.loads(file.read_text())
        for family, shapes in FAMILIES.items():
            some = {shape: kept["shapes"][str(shape)] for shape in shapes if str(shape) in kept["shapes"]}
            if not some:
                continue
            cells = []
            for library in ("OpenBLAS", "MKL", "PyTorch"):
                ratios = [best_of(each, library) / each["seconds"]["ours"] for each in some.values()]
                mean = float(np.exp(np.mean(np.log(ratios))))
                cells.append("-" if np.isnan(mean) else f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
            means.append((kept["processor"], f"{family} ({len(some)})", *cells))
            every += [row(kept["processor"], shape, each) for shape, each in some.items()]
    heads = tuple(f"{library}'s time over ours" for library in ("OpenBLAS", "MKL", "PyTorch"))
    shown = ("processor", "shape", "ours", "GFLOP/s", *heads)
    return "\n\n".join([table(("processor", "family", *heads), means), table(shown, every)])


def best_of(each: Mapping[str, Any], library: str) -> float:
    """The least seconds of a library's calls."""
    return min((t for name, t in each["seconds"].items() if name.partition(",")[0] == library), default=float("nan"))


def row(processor: str, shape: Shape, each: Mapping[str, Any]) -> tuple[str, ...]:
    """A shape: its point, its rate, and how much longer others take."""
    operations = 2 * float(np.prod(shape)) if len(shape) == 3 else 18 * float(shape[0] * shape[1]) ** 2
    words = " x ".join(map(str, shape)) if len(shape) == 3 else f"{shape[0]} x {shape[0]}, {shape[1]} channels"
    own = each["seconds"]["ours"]
    ratios = [best_of(each, library) / own for library in ("OpenBLAS", "MKL", "PyTorch")]
    return (
        processor, words, each["sizes"], f"{operations / own * 1e-9:.0f}",
        *("-" if np.isnan(ratio) else f"{ratio:.2f}" for ratio in ratios),
    )  # fmt: skip


def main() -> None:
    """Measure what is missing, and print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--seconds", type=float, default=3600.0)
    options.add_argument("--points", type=Path)
    options.add_argument("--only", default="")
    options.add_argument("--compile-only", action="store_true")
    options.add_argument("--processor", choices=SWITCHES)
    asked = options.parse_args()
    wanted = dict.fromkeys(THREADS, "1")
    if asked.processor:
        wanted |= {**SWITCHES[asked.processor], VARIABLE: asked.processor}
    if not wanted.items() <= os.environ.items():  # libraries read them when they are loaded
        environment = {**os.environ, **wanted}
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.size_families", *sys.argv[1:]], environment)
    kept = {"processor": named() or "this machine's", "conditions": conditions(), "shapes": {}}
    if asked.file.exists():
        kept = json.loads(asked.file.read_text())
    listed = json.loads(asked.points.read_text()) if asked.points else {}
    start, made = time.monotonic(), Ours()
    for family, shapes in FAMILIES.items():
        if not family.startswith(tuple(asked.only.split(","))):
            continue
        for shape in shapes:
            if asked.compile_only:
                for sizes in points(shape, listed):
                    made.kernel(product if len(shape) == 3 else convolution, sizes)
            elif str(shape) not in kept["shapes"]:
                if time.monotonic() - start > asked.seconds:
                    break
                kept["shapes"][str(shape)] = by_turns(shape, made, listed)
                asked.file.write_text(json.dumps(kept))
                print(shape, kept["shapes"][str(shape)], flush=True)
    if asked.file.exists():
        print(told([asked.file]))


if __name__ == "__main__":
    main()
