"""Reductions on a GPU: the recipe's schedules of Panamera's sub-graphs checked, sums timed beside CUB and PyTorch."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.stories import EXAMPLES, imported
from benchmarks.gpu.cuda_peers import Driver, address
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

Row = list[str]
Run = Callable[[], object]
Timed = Callable[[Run, Run], tuple[float, float]]
SOURCE = Path(__file__).with_name("cub_sums.cu")
ACROSS = {"TWO_PASS": tm.TWO_PASS, "LAST_BLOCK": tm.LAST_BLOCK, "ATOMIC": tm.ATOMIC}
#: The extents of the sums that are checked, and of those that are timed: 256 MB, or 4 MB.
SMALL, LARGE = (1000, 1024), (8192, 8192)
i, k, b, k0, t, lane = tm.iters("i k b k0 t lane")


def whole(across: Any, count: int) -> tm.Function:
    """The sum of everything: 32 terms a thread, four at a time, 256 threads a block."""
    f = tm.Function("total", params=[])
    a = f.input("a", tm.float32, [count])
    s = f.reduction("s", {}, {k: count}, tm.sum, a[k])
    f.outputs(s)
    s.update.split(k, 8192, b, k)
    s.update.split(k, 1024, k0, t)
    s.update.split(t, 4, t, lane)
    s.update.vectorize(lane, 4, combine=tm.PRIVATE)
    s.tag_gpu(blocks=[b], threads=[t], combine=tm.TREE, across=across)
    f.derive_transfers()
    return f


def of_matrix(form: str, rows: int, columns: int) -> tm.Function:
    """Sums of rows or of columns, by the recipe."""
    f = tm.Function(form, params=[])
    a = f.input("a", tm.float32, [rows, columns])
    if form == "rows":
        s = f.reduction("s", {i: rows}, {k: columns}, tm.sum, a[i, k])
    else:
        s = f.reduction("s", {i: columns}, {k: rows}, tm.sum, a[k, i])
    f.outputs(s)
    tm.recipes.reduction(s, on=tm.gpu())
    f.derive_transfers()
    return f


def sub_graph(graph: Any) -> tm.Function:
    """A sub-graph by the recipe."""
    f, sums = graph.algorithm()
    tm.recipes.reduction(*sums, on=tm.gpu())
    f.derive_transfers()
    made: tm.Function = f
    return made


def sub_graphs() -> Any:
    """The module of the sub-graphs."""
    return imported(EXAMPLES / "reductions", "subgraphs")


# -- right


def checked(device: str, most: int) -> list[Row]:
    """Each program at extents of at most so much: as close to float64 as rounding allows, its bits the same again."""
    module, rows = sub_graphs(), list[Row]()
    for graph in module.SUB_GRAPHS:
        smaller = graph.cut(most)
        rows.append([f"sub-graph {graph.number}", smaller.form, _verdict(module, smaller, device)])
    random = np.random.default_rng(0)
    count, width = min(SMALL[0], most), min(SMALL[1], most)
    matrix = random.random((count, width), dtype=np.float32)
    vector = random.random(min(70_001, most * most), dtype=np.float32)
    programs = {f"sum, {name}": (whole(across, len(vector)), vector, None) for name, across in ACROSS.items()}
    programs |= {f"sum of {form}": (of_matrix(form, count, width), matrix, axis) for form, axis in AXES.items()}
    for name, (f, a, axis) in programs.items():
        kernel = f.compile(device=device)
        found = [kernel(a) for _ in range(3)]
        close = np.allclose(found[0], a.sum(axis, dtype=np.float64), rtol=1e-5)
        same = f.check().determinism["s"] == "not_guaranteed" or len({each.tobytes() for each in found}) == 1
        rows.append([name, f.name, "right" if close and same else "WRONG" if not close else "WRONG: bits differ"])
    return rows


def _verdict(module: Any, graph: Any, device: str) -> str:
    try:
        module.compare(graph, sub_graph(graph).compile(device=device), graph.sample())
    except AssertionError as wrong:
        return f"WRONG: {str(wrong).strip().splitlines()[0]}"
    return "right"


AXES = {"rows": 1, "columns": 0}


# -- fast


class Cub:
    """Sums by CUB, compiled for this GPU by nvcc."""

    def __init__(self, library: ctypes.CDLL, device: str) -> None:
        self.library, self.device = library, device
        self.library.temporary.restype = ctypes.c_int64

    def run(self, name: str, a: Any, out: Any) -> Run:
        """A call on arrays of the GPU, complete when it returns."""
        rows, columns = a.shape if len(a.shape) == 2 else (1, a.shape[0])
        size = self.library.temporary(max(rows, columns), min(rows, columns))
        temporary = tm.gpu_empty((size,), np.uint8, device=self.device)
        lines, length = (columns, rows) if name == "columns" else (rows, columns)
        starts = tm.to_gpu(np.arange(lines + 1, dtype=np.int32) * np.int32(length), device=self.device)
        turned = tm.gpu_empty(a.shape, np.float32, device=self.device) if name == "columns" else None
        begin = [ctypes.c_void_p(address(temporary)), ctypes.c_int64(size), ctypes.c_void_p(address(a))]
        end = [ctypes.c_void_p(address(out))]
        if name == "all":
            function, passed = self.library.whole, [*begin, *end, ctypes.c_int64(a.shape[0])]
        elif name == "rows":
            function = self.library.of_rows
            passed = [*begin, *end, ctypes.c_int(rows), ctypes.c_void_p(address(starts))]
        else:
            function = self.library.of_columns
            sizes = [ctypes.c_int(rows), ctypes.c_int(columns), ctypes.c_void_p(address(starts))]
            passed = [*begin, ctypes.c_void_p(address(turned)), *end, *sizes]
        kept = (temporary, starts, turned)

        def run() -> None:
            if code := function(*passed):
                raise SystemExit(f"CUB failed with CUDA error {code}, with {len(kept)} arrays of its own")

        return run


def cub(device: str) -> Cub | str:
    """CUB, or why it is not there."""
    nvcc = find_nvcc(open_cache())
    if isinstance(nvcc, str):
        return f"no nvcc: {nvcc}"
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / "cub_sums.so"
        command = [nvcc.path, "-O3", "-shared", "-Xcompiler", "-fPIC", "-arch=native", str(SOURCE), "-o", str(made)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            return f"nvcc refuses it: {run.stderr.strip().splitlines()[-1]}"
        return Cub(ctypes.CDLL(str(made)), device)


def torch() -> Any:
    """PyTorch with this GPU, or None."""
    if importlib.util.find_spec("torch") is None:
        return None
    found = importlib.import_module("torch")
    return found if found.cuda.is_available() else None


def timings(device: str, small: bool, driver: Driver, timed: Timed) -> list[Row]:
    """Sums of everything, rows and columns beside a copy, CUB and PyTorch; blocks in two passes beside atomics."""
    rows, columns = (1024, 1024) if small else LARGE
    matrix = tm.to_gpu(np.random.default_rng(0).random((rows, columns), dtype=np.float32), device=device)
    vector = tm.to_gpu(np.random.default_rng(0).random(rows * columns, dtype=np.float32), device=device)
    room, library, size = tm.gpu_empty((rows, columns), np.float32, device=device), cub(device), 4 * rows * columns
    found = list[Row]()
    programs = {f"all, {name}": (whole(across, rows * columns), vector) for name, across in ACROSS.items()}
    programs |= {form: (of_matrix(form, rows, columns), matrix) for form in AXES}
    runs: dict[str, Run] = {}
    for name, (f, a) in programs.items():
        kernel, form = f.compile(device=device, fast=("contract",)), name.split(",")[0]
        out = kernel(a)
        runs[name] = lambda kernel=kernel, a=a, out=out: kernel(a, s=out)
        mine, copy = timed(runs[name], driver.copy(room, matrix, size))
        found.append(_row(f"sum of {name}", mine, size, "device copy, read and written", copy / 2, "0.90"))
        peers = _peers(form, a, library, device)
        for peer, run in peers.items():
            mine, other = timed(runs[name], run)
            goal = "2.00" if form == "columns" and peer == "CUB" else "1.00"
            found.append(_row(f"sum of {name}", mine, size, peer, other, goal))
    mine, other = timed(runs["all, TWO_PASS"], runs["all, ATOMIC"])
    found.append(_row("sum of all, TWO_PASS", mine, size, "ATOMIC", other, "0.97"))
    if isinstance(library, str):
        found.append(["CUB", "", "", library, "", ""])
    return [*found, *graph_timings(device, small, timed)]


def _peers(form: str, a: Any, library: Cub | str, device: str) -> dict[str, Run]:
    found: dict[str, Run] = {}
    if isinstance(library, Cub):
        lines = {"all": 1, "rows": a.shape[0], "columns": a.shape[-1]}[form]
        found["CUB"] = library.run(form, a, tm.gpu_empty((lines,), np.float32, device=device))
    if (known := torch()) is not None:
        x, axis = known.as_tensor(a, device="cuda"), {"all": None, "rows": 1, "columns": 0}[form]

        def run() -> None:
            x.sum() if axis is None else x.sum(axis)
            known.cuda.synchronize()

        found["PyTorch"] = run
    return found


def graph_timings(device: str, small: bool, timed: Timed) -> list[Row]:
    """The sub-graphs at the paper's shapes beside PyTorch, eager and compiled."""
    known, rows = torch(), list[Row]()
    for graph in sub_graphs().SUB_GRAPHS:
        program = graph.cut(256) if small else graph
        kernel = sub_graph(program).compile(device=device, fast=("contract",))
        given = [tm.to_gpu(each, device=device) for each in program.sample()]
        found = kernel(*given)
        names = [f"s{n}" for n in range(program.sums)]
        out = dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))
        ours: Run = lambda kernel=kernel, given=given, out=out: kernel(*given, **out)  # noqa: E731
        if known is None:
            rows.append(_row(program.name, timed(ours, ours)[0], program.read, "no PyTorch", 0, ""))
            continue
        for peer, goal, run in _eager_and_compiled(known, program, given):
            mine, other = timed(ours, run)
            rows.append(_row(program.name, mine, program.read, peer, other, goal))
    return rows


def _eager_and_compiled(known: Any, program: Any, given: Sequence[Any]) -> list[tuple[str, str, Run]]:
    tensors = [known.as_tensor(each, device="cuda") for each in given]
    fused = known.compile(lambda *each: program.eager(known, each)(), dynamic=False)
    eager = program.eager(known, tensors)
    synchronised = known.cuda.synchronize
    return [
        ("PyTorch", "2.00", lambda: (eager(), synchronised())),
        ("torch.compile", "1.00", lambda: (fused(*tensors), synchronised())),
    ]


def _row(name: str, mine: float, size: int, peer: str, other: float, goal: str) -> Row:
    ratio = f"{other / mine:.2f}" if other else ""
    return [name, f"{mine * 1e3:.3f}", f"{size / mine / 1e9:.0f} GB/s", peer, ratio, goal]
