"""The common steps of the apps in this folder: prove, compile, compare with NumPy, time, and draw a picture.

    python examples/apps/harris.py [--out FOLDER]

With `--out` an app that makes a picture writes what it makes of a photograph, if Pillow is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]
Size = tuple[int, ...]
FAST = ("contract",)
SIZES: tuple[Size, ...] = ((1, 1), (2, 17), (37, 41), (65, 129))
LARGE: Size = (1600, 2560)
PHOTOGRAPH = Path(__file__).resolve().parent.parent / "pictures" / "grace_hopper.jpg"


def tell(
    scheduled: Callable[[], tm.Function],
    sample: Callable[..., Arguments],
    exact: Callable[[Arguments], Array],
    close: float,
    shown: Callable[[tm.Kernel, Array], Array] | None = None,
    sizes: Sequence[Size] = SIZES,
    large: Size = LARGE,
) -> None:
    """Compare a scheduled program with NumPy on small samples, with one and two threads; time it on a large one."""
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, help="a folder for the picture")
    folder = options.parse_args().out
    f = scheduled()
    print(f.check())
    for threads in (1, 2):
        kernel = f.compile(fast=FAST, threads=threads)
        for size in sizes:
            compare(kernel, sample(*size), exact, close)
        shape = " x ".join(map(str, large[::-1] if len(large) == 2 else large))
        print(f"{f.name}, {shape}, threads: {threads}: {least_time(f, kernel, sample(*large)) * 1e3:.2f} ms")
    if folder and shown:
        draw(shown(kernel, photograph()), folder / f"{f.name}.png")
    print(f"right: {f.name} is within {close:g} of NumPy")


def compare(kernel: tm.Kernel, given: Arguments, exact: Callable[[Arguments], Array], close: float) -> None:
    """Raise unless each value is as close to NumPy's as stated; 0 is for equal integers."""
    found: Any = kernel(**given)
    expected = exact(given)
    assert found.shape == expected.shape, f"{found.shape}, not {expected.shape}"
    apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    assert (apart <= close).all(), f"{np.nanmax(apart):g} beyond {close:g}, {found.shape}"


def least_time(f: tm.Function, kernel: tm.Kernel, given: Arguments, calls: int = 3) -> float:
    """The time in seconds of the fastest of a few calls that write to the same array."""
    (name,) = f.algorithm.outputs
    out = {name: kernel(**given)}
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        kernel(**given, **out)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def planes(rows: int, columns: int, count: int = 3) -> Array:
    """Smooth random planes of float32 from 0.1 to 1: a picture rather than noise, and the same each time."""
    rng = np.random.default_rng(0)
    coarse = rng.random((count, rows // 8 + 1, columns // 8 + 1), dtype=np.float32)
    large = np.repeat(np.repeat(coarse, 8, 1), 8, 2)[:, :rows, :columns]
    noise = rng.random((count, rows, columns), dtype=np.float32)
    mixed: Array = np.float32(0.1) + np.float32(0.6) * large + np.float32(0.3) * noise
    return mixed


def photograph() -> Array:
    """The photograph as three planes of float32 from 0 to 1."""
    from PIL import Image  # noqa: PLC0415 (only for pictures)

    pixels = np.asarray(Image.open(PHOTOGRAPH).convert("RGB"), np.float32) / 255
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def draw(picture: Array, file: Path) -> None:
    """Write a plane, or three planes, with values from 0 to 1."""
    from PIL import Image  # noqa: PLC0415 (only for pictures)

    pixels = (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels if pixels.ndim == 2 else np.moveaxis(pixels, 0, 2)).save(file)
    print(f"written: {file}")
