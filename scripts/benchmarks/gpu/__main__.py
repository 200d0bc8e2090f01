"""All checks on a GPU: every story of examples/gpu and examples/cooperative right, then timings.

They are beside a device copy and cuBLAS, and for GPU and cores together beside either alone.

scripts/gpu_checks [--save] [--device gpu] [--small]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

import tiramisu_py as tm
from benchmarks.common import tables
from benchmarks.common.tables import report, table
from benchmarks.gpu import cooperative, cuda_peers, gradients, reductions
from benchmarks.thesis.programs import ON_GPU, example

ROOT = Path(__file__).resolve().parents[3]
STORIES = ("blur", "transpose", "matrix_product", "heat", "pictures", "softmax", "sums", "two_gpus")
Row = list[str]
Run = Callable[[], object]


def story(name: str) -> ModuleType:
    """A story of examples/gpu, as a module."""
    return example("gpu", name)


def sampled(module: ModuleType, variant: str, size: int, seed: int) -> dict[str, np.ndarray | int]:
    """Arguments for one variant of a story."""
    if hasattr(module, "sample_of"):
        return dict(module.sample_of(variant, size, seed))
    return dict(module.sample(size, seed))


# -- right


def checked(device: str, sizes: tuple[int, ...]) -> list[Row]:
    """Each variant of each story against `evaluate()`, bit for bit."""
    rows = []
    for name in STORIES:
        module = story(name)
        for variant, build in module.VARIANTS.items():
            rows.append([name, variant, _verdict(module, variant, build, device, sizes)])
    return rows


def _verdict(
    module: ModuleType, variant: str, build: Callable[[], tm.Function], device: str, sizes: tuple[int, ...]
) -> str:
    f = build()
    used = f.show("lowered").gpus.devices
    if device != "simulator" and used > tm.gpu_count():
        return f"skipped: needs {used} GPUs"
    kernel = f.compile(device=device)
    for size in sizes:
        for seed in range(3):
            given = sampled(module, variant, size, seed)
            found, expected = kernel(**given), f.evaluate(**given)
            for x, y in zip(_listed(found), _listed(expected), strict=True):
                if not np.array_equal(x, y, equal_nan=True):
                    return f"WRONG at size {size}"
    return "right"


def _listed(results: object) -> tuple[np.ndarray, ...]:
    return results if isinstance(results, tuple) else (np.asarray(results),)


def sanitized() -> list[Row]:
    """The stories under compute-sanitizer, where it is installed."""
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if tool is None:
        return [["compute-sanitizer", "", "skipped: not installed"]]
    rows = []
    for name in ("blur", "transpose", "matrix_product", "sums"):
        for check in ("memcheck", "racecheck"):
            command = [tool, "--tool", check, "--error-exitcode", "9", sys.executable, f"examples/gpu/{name}.py"]
            run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            rows.append([name, check, "clean" if run.returncode == 0 else f"FAILED ({run.stdout[-200:]})"])
    return rows


# -- fast


def best(run: Run, rounds: int = 20) -> float:
    """The least time of some calls, in seconds, after two warm-up calls."""
    run()
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def paired(ours: Run, peer: Run, rounds: int = 20) -> tuple[float, float]:
    """The least times of two contenders that take turns."""
    mine, other = float("inf"), float("inf")
    for _ in range(rounds):
        mine, other = min(mine, best(ours, 3)), min(other, best(peer, 3))
    return mine, other


def against_a_copy(name: str, f: tm.Function, device: str, shape: tuple[int, ...], driver: cuda_peers.Driver) -> Row:
    """A kernel on arrays that live on the GPU, beside a copy of the same number of bytes."""
    kernel = f.compile(device=device, fast=("contract",))
    given = tm.to_gpu(np.random.default_rng(0).random(shape, dtype=np.float32), device=device)
    out = kernel(given)
    size = int(np.prod(out.shape)) * 4
    mine, copy = paired(lambda: kernel(given, **{f.algorithm.outputs[0]: out}), driver.copy(out, given, size))
    return [name, f"{mine * 1e3:.3f}", f"{2 * size / mine / 1e9:.0f} GB/s", "device copy", f"{copy / mine:.2f}", "0.90"]


def timings(device: str, small: bool) -> list[Row]:
    """The table of times: blur, transpose, heat, matrix product, overlapped copies over sequential ones."""
    if device == "simulator":
        return [as_a_graph(device, 20), *overlapped(device, 64)]  # the others need the driver
    driver = cuda_peers.Driver()
    side = 1024 if small else 8192
    blur, transpose = story("blur"), story("transpose")
    rows = [
        against_a_copy("blur, in registers", blur.in_registers(tm.GPU_MEMORY), device, (side + 2, side + 2), driver),
        against_a_copy("transpose, tiled", transpose.tiled(tm.GPU_MEMORY), device, (side, side), driver),
        heat(device, side, driver),
        product(device, 1024 if small else 4096, driver),
        as_a_graph(device, 256),
        *overlapped(device, side),
    ]
    return [row for row in rows if row]


def heat(device: str, side: int, driver: cuda_peers.Driver) -> Row:
    """Time steps in a plate: each should cost as much as a copy of the plate."""
    steps = 100
    kernel = story("heat").plate(tm.GPU_MEMORY).compile(device=device, fast=("contract",))
    start = tm.to_gpu(np.random.default_rng(0).random((side, side), dtype=np.float32), device=device)
    out = tm.gpu_empty((side, side), np.float32, device=device)
    mine, copy = paired(lambda: kernel(start=start, T=steps, heat_out=out), driver.copy(out, start, side * side * 4), 5)
    a_step = mine / (steps + 2)
    speed = f"{2 * side * side * 4 / a_step / 1e9:.0f} GB/s"
    return ["heat in a plate, a step", f"{a_step * 1e3:.3f}", speed, "device copy", f"{copy / a_step:.2f}", "0.90"]


def as_a_graph(device: str, side: int) -> Row:
    """Short time steps in a small plate: their kernels launched as one CUDA graph, beside one by one."""
    numbers = np.random.default_rng(0).random((side, side), dtype=np.float32)
    start, runs, found = tm.to_gpu(numbers, device=device), [], []
    for graph in (True, False):
        kernel = story("heat").plate(tm.GPU_MEMORY).compile(device=device, graph=graph)
        out = tm.gpu_empty((side, side), np.float32, device=device)
        run = lambda kernel=kernel, out=out: kernel(start=start, T=100, heat_out=out)  # noqa: E731
        run()
        runs.append(run)
        found.append(out.get())
        kernels, graphs = kernel.launches.kernels, kernel.launches.graphs
        assert graphs == (1 if graph else 0), kernel.launches
    np.testing.assert_array_equal(*found)
    mine, other = paired(*runs, 3)
    return [
        "100 short steps, as one graph",
        f"{mine * 1e3:.3f}",
        f"{kernels} kernels",
        "one by one",
        f"{other / mine:.2f}",
        "1.00",
    ]


def product(device: str, size: int, driver: cuda_peers.Driver) -> Row:
    """The matrix product in float32 beside cuBLAS."""
    library = cuda_peers.cublas()
    kernel = story("matrix_product").double_buffered(tm.GPU_MEMORY).compile(device=device, fast=("contract",))
    numbers = np.random.default_rng(0)
    a, b = (tm.to_gpu(numbers.random((size, size), dtype=np.float32), device=device) for _ in range(2))
    c, d = (tm.gpu_empty((size, size), np.float32, device=device) for _ in range(2))
    ours = lambda: kernel(A=a, B=b, C=c)  # noqa: E731
    if library is None:
        mine = best(ours)
        return [
            "matrix product",
            f"{mine * 1e3:.3f}",
            f"{2 * size**3 / mine / 1e12:.1f} TFLOP/s",
            "cuBLAS",
            "no cuBLAS",
            "0.85",
        ]
    theirs = cuda_peers.sgemm(library, driver, size, a, b, d)
    ours(), theirs()
    np.testing.assert_allclose(c.get(), d.get(), rtol=1e-3)
    mine, peer = paired(ours, theirs)
    return [
        "matrix product",
        f"{mine * 1e3:.3f}",
        f"{2 * size**3 / mine / 1e12:.1f} TFLOP/s",
        "cuBLAS",
        f"{peer / mine:.2f}",
        "0.85",
    ]


def overlapped(device: str, side: int) -> list[Row]:
    """The blur from pinned memory: rows copied while others are computed, beside one row after another."""
    image = tm.pinned_empty((side + 2, side + 2), np.float32, device=device)
    image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)
    out = tm.pinned_empty((side, side), np.float32, device=device)
    runs = {}
    for name, build in ON_GPU.items():
        kernel = build().compile(device=device)
        runs[name] = lambda kernel=kernel: kernel(image, by=out)
    in_turn = runs.pop("synchronous")
    rows = []
    for name, run in runs.items():
        mine, other = paired(run, in_turn, 5)
        speed = f"{2 * side * side * 4 / mine / 1e9:.1f} GB/s"
        rows.append([f"{name} blur", f"{mine * 1e3:.3f}", speed, "synchronous blur", f"{other / mine:.2f}", "1.70"])
    return rows


# -- the page, which is saved after each section: checks, GPU and cores together, one GPU alone, the sanitizer

COLUMNS = ("program", "ms", "speed", "peer", "times as fast as the peer", "goal")
CHECKS = ("program", "schedule", "result")


class Page:
    """The page of results so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.text: list[str] = []
        self.wrong = False
        self.begin = time.perf_counter()

    def add(self, text: str) -> None:
        """Adds a section, and reports the progress on stderr."""
        self.text.append(text)
        print(f"{time.perf_counter() - self.begin:.0f} s: {text.splitlines()[0]}", file=sys.stderr, flush=True)
        if self.given.save:
            tables.keep("gpu", TITLE, "\n\n".join(self.text), COMMAND)

    def check(self, title: str, rows: list[Row]) -> None:
        """Adds a section of checks, right or wrong."""
        self.wrong = self.wrong or any(row[2].startswith(("WRONG", "FAILED")) for row in rows)
        self.add(f"## {title}\n\n{table(CHECKS, rows)}")


TITLE, COMMAND = "GPU checks", "scripts/gpu_checks"


def main() -> None:
    """Check everything, then measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/gpu.md")
    options.add_argument("--device", default="gpu", help="gpu, gpu:1 or simulator (which measures nothing)")
    options.add_argument("--small", action="store_true", help="small sizes")
    given = options.parse_args()
    if given.device != "simulator" and not tm.gpu_count():
        raise SystemExit("there is no GPU here: --device simulator runs the programs without one")
    simulated = given.device == "simulator"
    page = Page(given)
    if not simulated:
        page.add(cuda_peers.Driver().description())
    page.check("Right", checked(given.device, (1, 33) if given.small else (1, 33, 1000)))
    page.check("Reductions: right", reductions.checked(given.device, 33 if given.small else 1000))
    page.check("Gradients: right", gradients.checked(given.device))
    page.check("Cooperative programs: right", cooperative.checked(given.device))
    together, pictures = cooperative.page(given.device, given.small)
    if given.save:
        tables.save_pictures(pictures)
    page.add(f"## Cooperative programs: times\n\n{together}")
    rows = timings(given.device, given.small)
    if not simulated:
        page.add(f"## Times\n\n{table(COLUMNS, rows)}\n\nMinima of paired rounds.")
        sums = reductions.timings(given.device, given.small, cuda_peers.Driver(), paired)
        page.add(f"## Reductions: times\n\n{table(COLUMNS, sums)}\n\nMinima of paired rounds.")
        steps = gradients.timings(given.device, given.small, paired)
        page.add(f"## Gradients: times\n\n{table(COLUMNS, steps)}\n\nMinima of paired rounds.")
        page.check("compute-sanitizer", sanitized())
    report("gpu", TITLE, "\n\n".join(page.text), given.save, COMMAND)
    if page.wrong:
        raise SystemExit("a check failed")


if __name__ == "__main__":
    main()
