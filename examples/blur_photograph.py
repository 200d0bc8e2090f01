"""Blur a photograph: the algorithm, its schedules for CPU cores, a GPU, ranks, and cores and a GPU together; proofs,
pictures.

    python examples/blur_photograph.py [--out FOLDER] [--radius 6] [--picture FILE] [--device simulator] [--ranks 4]

Writes before.png, after.png, before_and_after.png and, of cores and GPU together, timeline.svg and timeline.json (for
Perfetto or chrome://tracing), and prints what was checked and what it cost.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tiramisu_py as tm

R, C, G = tm.params("R C G")
k, r, c, r0, c0, r1, c1, rm, rt, ro, co, ct = tm.iters("k r c r0 c0 r1 c1 rm rt ro co ct")
PICTURE = Path(__file__).resolve().parent / "pictures" / "grace_hopper.jpg"
ON_RANKS = Path(__file__).resolve().parent / "mpi" / "photograph.py"


def mean(values: Iterable[Any]) -> Any:
    """The mean of expressions or of arrays, added from left to right."""
    listed = list(values)
    return functools.reduce(operator.add, listed) / len(listed)


def algorithm(radius: int, rows: Any = R, parted: bool = False) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A box blur of three planes in two stages, across and down; if `parted`, with a parameter G to split rows at."""
    side = 2 * radius + 1
    sizes = [R, C] if rows is R else [C]
    known = [f"{size} >= 1" for size in sizes] + (["0 <= G <= R"] if parted else [])
    blur = tm.Function("blur", params=[*sizes, G] if parted else sizes, assume=" and ".join(known))
    image = blur.input("image", tm.float32, [3, rows + side - 1, C + side - 1])
    across = blur.computation("across", {k: 3, r: rows + side - 1, c: C}, mean(image[k, r, c + d] for d in range(side)))
    down = blur.computation("down", {k: 3, r: rows, c: C}, mean(across[k, r + d, c] for d in range(side)))
    blur.outputs(down)
    return blur, across, down


def box_blur(radius: int) -> tm.Function:
    """The blur scheduled for CPU cores: tiles on threads, vectors, the first stage computed for each tile."""
    blur, across, down = algorithm(radius)
    down.tile(r, c, 64, 256, r0, c0, r1, c1)
    down.parallelize(k, r0)
    down.vectorize(c1, 16)
    across.compute_at(down, c0)
    across.vectorize(c, 16)
    return blur


def box_blur_gpu(radius: int) -> tm.Function:
    """The blur scheduled for a GPU: one tile for each block, its first stage in shared memory, copies derived."""
    blur, across, down = algorithm(radius)
    down.tile(r, c, 32, 64, r0, c0, r1, c1)
    down.split(r1, 4, rm, rt)
    down.tag_gpu(blocks=[k, r0, c0], threads=[rt, c1])
    across.compute_at(down, c0)
    across.store_in(tm.SHARED)
    across.split(r, 4, ro, rt)
    across.split(c, 64, co, ct)
    across.tag_gpu(threads=[rt, ct])
    blur.derive_transfers()
    return blur


def box_blur_cooperative(radius: int) -> tm.Function:
    """Both stages split at row G: the rows before it run on a GPU, the others on the cores, at the same time."""
    blur, across, down = algorithm(radius, parted=True)
    for stage in (across, down):
        stage.partition(r, [G], [tm.gpu(tile=(4, 64)), tm.cores(vector=16)])
    blur.derive_transfers(overlap=True)
    return blur


def box_blur_numpy(image: np.ndarray, radius: int) -> np.ndarray:
    """The same blur by whole-array operations, as a sum of slices."""
    rows, columns = image.shape[1] - 2 * radius, image.shape[2] - 2 * radius
    across = mean(image[:, :, d : d + columns] for d in range(2 * radius + 1))
    return mean(across[:, d : d + rows] for d in range(2 * radius + 1))


def timed(action: Callable[[], Any], rounds: int = 1) -> tuple[Any, float]:
    """The result of an action and its least time in seconds over `rounds` calls."""
    best, result = float("inf"), None
    for _ in range(rounds):
        start = time.perf_counter()
        result = action()
        best = min(best, time.perf_counter() - start)
    return result, best


def planes(picture: Image.Image, border: int) -> np.ndarray:
    """The three colours of a picture as float32 planes, the edge repeated `border` pixels outwards."""
    colours = np.asarray(picture.convert("RGB"), dtype=np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray(np.pad(colours, ((0, 0), (border, border), (border, border)), mode="edge"))


def picture_of(colours: np.ndarray) -> Image.Image:
    """Three planes of 0 to 255 as a picture."""
    return Image.fromarray(np.rint(colours).clip(0, 255).astype(np.uint8).transpose(1, 2, 0).copy())


def side_by_side(left: Image.Image, right: Image.Image, gap: int = 12) -> Image.Image:
    """Two pictures of the same height, side by side."""
    sheet = Image.new("RGB", (left.width + gap + right.width, left.height), "white")
    sheet.paste(left, (0, 0))
    sheet.paste(right, (left.width + gap, 0))
    return sheet


def table(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print two columns under a title."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    print(f"\n{title}")
    for name, value in listed:
        print(f"  {name:<{width}}  {value}")


def milliseconds(seconds: float) -> str:
    """A time for the table."""
    return f"{seconds * 1e3:9.3f} ms"


def on_cores(image: np.ndarray, radius: int) -> tuple[np.ndarray, dict[str, bool], list[tuple[str, float]]]:
    """The blur on CPU cores: the result, the checks, and the times."""
    blur, scheduling = timed(lambda: box_blur(radius))
    report, checking = timed(blur.check)
    kernel, compiling = timed(blur.compile)
    blurred = np.empty((3, image.shape[1] - 2 * radius, image.shape[2] - 2 * radius), dtype=np.float32)
    _, running = timed(lambda: kernel(image, down=blurred), rounds=50)
    single = blur.compile(threads=1)
    _, running_alone = timed(lambda: single(image, down=blurred), rounds=50)
    checks = {
        "the schedule for CPU cores is legal": report.ok,
        "equal to evaluate(), bit for bit": np.array_equal(blurred, blur.evaluate(image=image)),
    }
    times = [("schedule", scheduling), ("check", checking), ("compile", compiling)]
    return blurred, checks, [*times, ("run on all threads", running), ("run on one thread", running_alone)]


def with_gpu(
    device: str, image: np.ndarray, radius: int, expected: np.ndarray
) -> tuple[dict[str, bool], list[tuple[str, float]]]:
    """The blur on a GPU, real or simulated: the checks, and the times."""
    blur = box_blur_gpu(radius)
    report, checking = timed(blur.check)
    kernel, compiling = timed(lambda: blur.compile(device=device))
    blurred, running = timed(lambda: kernel(image), rounds=3)
    checks = {
        f"the schedule for the {device} is legal": report.ok,
        f"on the {device}: equal to NumPy, bit for bit": np.array_equal(blurred, expected),
    }
    if device == "simulator":
        small = np.ascontiguousarray(image[:, : 2 * radius + 40, : 2 * radius + 70])
        careful = blur.compile(device="simulator", sanitize=True, seed=1)
        same = np.array_equal(careful(small), blur.evaluate(image=small))
        checks["on the simulator: no race, no access out of bounds, in any order"] = same
    times = [("schedule for the GPU: check", checking), ("schedule for the GPU: compile", compiling)]
    return checks, [*times, (f"run on the {device}, copies included", running)]


def together(
    device: str, image: np.ndarray, radius: int, expected: np.ndarray
) -> tuple[dict[str, bool], list[tuple[str, float]], tm.Trace]:
    """The blur on cores and a GPU at once: the checks, the times, and the trace."""
    blur = box_blur_cooperative(radius)
    report, checking = timed(blur.check)
    _, rows, columns = expected.shape
    split = tm.balance(blur, {"R": rows, "C": columns}, device=device)
    kernel = blur.compile(device=device)
    blurred, running = timed(lambda: kernel(image, **split.points), rounds=3)
    share = f"{split.points['G']} of {rows} rows on the {device}, as balance() proposes"
    some = rows // 4
    traced = blur.compile(
        device=device, trace=True, **({"timing": "threads", "threads": 1} if device == "simulator" else {})
    )
    runs = [(traced(image, G=some), traced.trace) for _ in range(5)]
    parted, trace = max(runs, key=lambda run: run[1].overlap("kernel", "nest"))
    checks = {
        f"the schedule for cores and the {device} together is legal": report.ok,
        f"cores and the {device} together: equal to NumPy, bit for bit": np.array_equal(blurred, expected),
        f"the same with {some} rows on the {device}": np.array_equal(parted, expected),
    }
    at_once = trace.overlap("kernel", "nest")
    times = [("schedule for cores and GPU: check", checking), (f"run on both, {share}", running)]
    times += [(f"both at work at once, {some} rows on the {device}", at_once)]
    return checks, times, trace


def on_ranks(count: int, image: np.ndarray, radius: int, expected: np.ndarray) -> tuple[dict[str, bool], list[Any]]:
    """The blur on ranks, started by mpirun: the checks, and the times."""
    launcher = next((str(at) for at in (Path(sys.executable).parent / "mpirun",) if at.exists()), "mpirun")
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "image.npy", image)
        command = [launcher, "-n", str(count), sys.executable, str(ON_RANKS), folder, str(radius)]
        path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if run.returncode:
            raise SystemExit(f"{' '.join(command)}\n{run.stdout}{run.stderr}")
        blurred = np.load(Path(folder) / "down.npy")
        said = json.loads((Path(folder) / "said.json").read_text())
    checks = {
        f"the schedule for {count} ranks is legal": said["legal"],
        f"on {count} ranks: equal to NumPy, bit for bit": np.array_equal(blurred, expected),
        f"on {count} ranks: the bytes exchanged are those of the overlapping rows": said["bytes"] == said["needed"],
    }
    times = [(f"schedule for {count} ranks: check", said["checking"]), (f"run on {count} ranks", said["running"])]
    return checks, times


def written(folder: Path, before: Image.Image, after: Image.Image, trace: tm.Trace | None) -> dict[str, Path]:
    """Writes the pictures and the timeline of cores and GPU; the paths of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {"before": before, "after": after, "before_and_after": side_by_side(before, after)}
    files = {name: folder / f"{name}.png" for name in pictures}
    for name, content in pictures.items():
        content.save(files[name])
    if trace is None:
        return files
    (folder / "timeline.svg").write_text(trace.picture())
    trace.save(folder / "timeline.json")
    timelines = {
        "cores and GPU together": folder / "timeline.svg",
        "the same for ui.perfetto.dev": folder / "timeline.json",
    }
    return files | timelines


def main() -> None:
    """Blur, check, time, write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("out"), help="folder of the pictures (default: out)")
    options.add_argument("--radius", type=int, default=6, help="each pixel becomes the mean of 2 * radius + 1 squared")
    options.add_argument("--picture", type=Path, default=PICTURE, help="the photograph")
    options.add_argument("--device", help="gpu, gpu:1, simulator or none (default: a GPU, where there is one)")
    options.add_argument("--ranks", type=int, default=4, help="ranks that mpirun starts; 0 for none (default: 4)")
    given = options.parse_args()

    picture = Image.open(given.picture).convert("RGB")
    image = planes(picture, given.radius)
    print(f"{given.picture.name}: {picture.width} x {picture.height}, radius {given.radius}")

    blurred, checks, times = on_cores(image, given.radius)
    by_slices, with_numpy = timed(lambda: box_blur_numpy(image, given.radius), rounds=3)
    elsewhere = np.empty_like(blurred)
    _, copying = timed(lambda: np.copyto(elsewhere, blurred), rounds=30)
    checks["equal to NumPy, bit for bit"] = np.array_equal(blurred, by_slices)
    faster = with_numpy / min(seconds for name, seconds in times if name.startswith("run"))
    device = given.device or ("gpu" if tm.gpu_count() else "simulator")
    if device != "none":
        gpu_checks, gpu_times = with_gpu(device, image, given.radius, by_slices)
        checks, times = checks | gpu_checks, times + gpu_times
    if given.ranks:
        rank_checks, rank_times = on_ranks(given.ranks, image, given.radius, by_slices)
        checks, times = checks | rank_checks, times + rank_times
    trace = None
    if device != "none":
        both_checks, both_times, trace = together(device, image, given.radius, by_slices)
        checks, times = checks | both_checks, times + both_times
    times += [("NumPy", with_numpy), ("a copy of the picture", copying)]
    table("checks", ((name, "yes" if right else "NO") for name, right in checks.items()))
    table("times", ((name, milliseconds(seconds)) for name, seconds in times))

    files = written(given.out, picture, picture_of(blurred), trace)
    table("pictures", ((name, str(file)) for name, file in files.items()))
    if not all(checks.values()):
        raise SystemExit("a check failed")
    print(f"\nright: {sum(checks.values())} of {len(checks)} checks, {faster:.1f} times as fast as NumPy")


if __name__ == "__main__":
    main()
