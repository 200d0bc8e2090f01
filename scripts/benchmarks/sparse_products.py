"""Products with block-sparse matrices on two threads: rows dealt out by their number or by their blocks; super-blocks.

python -m benchmarks.sparse_products FILE [--threads 2] [--seconds S] [--lengths 512,1024,2048] [--steps 512,1024]

A causal pattern has rows of 1 to n blocks: threads that have equally many rows have unequal work. Scores of a pattern
are computed block by block, or for super-blocks, whose rows and columns share what they load. A step of a layer of a
transformer, forward and backward, has a local pattern of an eighth of the blocks, or all of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import table

R, Z, D = tm.params("R Z D")
r, z, u, v, d, p, a, b = tm.iters("r z u v d p a b")
u0, u1, d0, d1, v0, v1, a0, a1 = tm.iters("u0 u1 d0 d1 v0 v1 a0 a1")
BLOCK, WIDTH, DEPTH, HEADS = 16, 768, 64, 12
LENGTHS = (512, 1024, 2048)
SIZES = (4, 2, 1)
WAYS = {"blocks": (1,), "super-blocks": SIZES}
ROUNDS, ENOUGH = 7, 0.02


def values(balanced: bool) -> tm.Function:
    """A sparse matrix of blocks times a dense one, a thread with consecutive rows."""
    f = tm.Function("values", params=[R, Z, D], assume="R >= 1")
    row = f.segments("start", R, of=Z)
    column = f.input("column", tm.int32, [Z], values=(0, R))
    shares, dense = f.input("shares", tm.float32, [Z, BLOCK, BLOCK]), f.input("dense", tm.float32, [R, BLOCK, D])
    c = f.reduction(
        "c", {r: R, u: BLOCK, d: D}, {z: row[r], v: BLOCK}, tm.sum, shares[z, u, v] * dense[column[z], v, d]
    )
    out = f.computation("out", {r: R, u: BLOCK, d: D}, c[r, u, d])
    f.outputs(out)
    lanes = 2 * tm.target().lanes(tm.float32)
    out.split(u, 8, u0, u1)
    out.split(d, lanes, d0, d1)
    out.reorder(r, d0, u0, u1, d1)
    out.parallelize(r, balance=f["start"] if balanced else None)
    out.unroll(u1)
    out.vectorize(d1, lanes, remainder="mask")
    c.compute_at(out, u0)
    c.store_in(tm.REGISTER)
    c.update.reorder(z, v, u, d)
    c.unroll(u)
    c.vectorize(d, lanes, remainder="mask")
    return f


def scores(sizes: Sequence[int]) -> tm.Function:
    """Scores of super-blocks of so many blocks a side, listed for each size, of all heads: one call."""
    f = tm.Function("scores", params=[R, Z, *(tm.Param(f"P{size}") for size in sizes)], assume="R >= 1")
    q = f.input("q", tm.float32, [Z, R, BLOCK, DEPTH])
    keys = f.input("keys", tm.float32, [Z, R, DEPTH, BLOCK])  # a block of tokens beside each other, for the lanes
    parts = [part(f, size, q, keys) for size in sizes]
    f.outputs(*parts)
    for before, after in pairwise(parts):
        after.after(before, z)  # a head after another: a thread's cache has what it loads
    return f


def part(f: tm.Function, size: int, q: tm.Input, keys: tm.Input) -> tm.Computation:
    """The scores of super-blocks of `size` x `size` blocks, a thread with whole heads."""
    count = tm.Param(f"P{size}")
    rows = f.input(f"rows{size}", tm.int32, [count, size], values=(0, R))
    columns = f.input(f"columns{size}", tm.int32, [count, size], values=(0, R))
    s = f.reduction(
        f"s{size}", {z: Z, p: count, a: size, u: BLOCK, b: size, v: BLOCK}, {d: DEPTH}, tm.sum,
        q[z, rows[p, a], u, d] * keys[z, columns[p, b], d, v],
    )  # fmt: skip
    out = f.computation(f"out{size}", {z: Z, p: count, a: size, u: BLOCK, b: size, v: BLOCK}, s[z, p, a, u, b, v])
    together = min(size, 2)  # blocks beside each other in a tile
    tall = 8 if together > 1 else BLOCK
    out.split(u, tall, u0, u1)
    out.split(b, together, d0, d1)
    out.reorder(z, p, d0, a, u0, u1, d1, v)
    out.parallelize(z)
    out.unroll(u1)
    out.unroll(d1)
    out.vectorize(v, BLOCK)
    s.compute_at(out, u0)
    s.store_in(tm.REGISTER)
    s.update.reorder(d, u, b, v)
    s.unroll(u)
    s.unroll(b)
    s.vectorize(v, BLOCK)
    return out


def patterns(length: int) -> dict[str, tm.patterns.BlockLayout]:
    """Patterns of about an eighth of the blocks, named as in the thesis."""
    blocks = length // BLOCK
    known = tm.patterns
    return {
        "local": known.local(blocks=blocks, size=max(blocks // 8, 1)),
        "strided": known.strided(blocks=blocks, stride=max(blocks // 8, 2)),
        "random": known.BlockLayout(np.random.default_rng(0).random((blocks, blocks)) < 1 / 8),
    }


def timed(run: Callable[[], object]) -> float:
    """The seconds of a call, as the mean of several short ones."""
    calls, start = 0, time.perf_counter()
    while not calls or time.perf_counter() - start < ENOUGH:
        run()
        calls += 1
    return (time.perf_counter() - start) / calls


def by_turns(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least time of each."""
    for run in runs.values():
        run()
    times = [{name: timed(run) for name, run in runs.items()} for _ in range(ROUNDS)]
    return {name: min(each[name] for each in times) for name in runs}


def of_values(kernels: Mapping[bool, tm.Kernel], length: int) -> dict[str, float]:
    """Seconds of a causal product, its rows dealt out in both ways."""
    layout = tm.patterns.causal(blocks=length // BLOCK)
    known, draw = layout.tables(), np.random.default_rng(0).random
    given = {
        "start": known["start"], "column": known["column"],
        "shares": draw((layout.count, BLOCK, BLOCK), np.float32),
        "dense": draw((length // BLOCK, BLOCK, WIDTH), np.float32),
    }  # fmt: skip
    results = [kernel(**given) for kernel in kernels.values()]
    np.testing.assert_array_equal(*results)
    out = results[0]
    return by_turns({
        "rows": lambda: kernels[False](**given, out=out), "blocks": lambda: kernels[True](**given, out=out)
    })  # fmt: skip


def of_scores(kernels: Mapping[str, tm.Kernel], layout: tm.patterns.BlockLayout) -> dict[str, float]:
    """Seconds of the scores of all heads, block by block and in super-blocks."""
    draw, blocks = np.random.default_rng(0).random, len(layout.mask)
    q, keys = (draw((HEADS, blocks, *shape), np.float32) for shape in ((BLOCK, DEPTH), (DEPTH, BLOCK)))
    runs = {}
    for name, sizes in WAYS.items():
        given, found = {"q": q, "keys": keys}, layout.superblocks(sizes=sizes)
        for size in sizes:
            mine = [each for each in found if len(each.rows) == size]
            for words, lists in (("rows", [e.rows for e in mine]), ("columns", [e.columns for e in mine])):
                given[f"{words}{size}"] = np.array(lists, np.int32).reshape(len(mine), size)
            given[f"out{size}"] = np.zeros((HEADS, len(mine), size, BLOCK, size, BLOCK), np.float32)
        kernels[name](**given)
        for size in sizes:
            tiles = q[:, given[f"rows{size}"]], keys[:, given[f"columns{size}"]]
            np.testing.assert_allclose(given[f"out{size}"], np.einsum("zpaud,zpbdv->zpaubv", *tiles), rtol=1e-4)
        runs[name] = lambda name=name, given=given: kernels[name](**given)  # type: ignore[misc]
    return by_turns(runs)


def bound(length: int, density: float) -> float:
    """How many times as fast a sparse step can be: multiplications of the dense one over its own (the thesis, 6.4)."""
    shared, scores = 6 * WIDTH**2 * length, WIDTH * length**2
    return (shared + 6 * scores) / (shared + 4 * density * scores)


def compiled_step(threads: int) -> tuple[Any, tm.Kernel]:
    """The example's layer with its gradient, as it is scheduled there."""
    example = importlib.import_module("examples.blocks.transformer")
    step = tm.grad(example.layer(tm.float32, of=example.USUAL), wrt=[*example.WEIGHTS, "near"])
    kernel = example.scheduled(step).compile(fast=("contract", "reassociate"), threads=threads)
    return example, kernel


def of_steps(example: Any, kernel: tm.Kernel, length: int) -> dict[str, float]:
    """Seconds of a step with all blocks and with a local pattern, whose loss is compared with that of matrices."""
    rows, runs = length // BLOCK, {}
    chosen = {
        "dense": tm.patterns.BlockLayout(np.ones((rows, rows)), block=BLOCK),
        "sparse": tm.patterns.local(blocks=rows, size=max(rows // 8, 1), block=BLOCK),
    }
    for name, layout in chosen.items():
        exact = example.example(layout, WIDTH, of=example.USUAL)
        given = {key: x.astype(np.float32) if x.dtype == np.float64 else x for key, x in exact.items()}
        loss, *_ = kernel(**given)
        np.testing.assert_allclose(loss, example.dense(layout, exact), rtol=1e-4)
        runs[name] = lambda given=given: kernel(**given)  # type: ignore[misc]
    return {"density": chosen["sparse"].density, **by_turns(runs)}


def told_steps(steps: Mapping[str, Mapping[str, float]]) -> str:
    """The table of steps beside the bound."""
    rows = []
    for length, each in steps.items():
        times, most = each["dense"] / each["sparse"], bound(int(length), each["density"])
        rows.append((
            length, f"{each['density']:.3f}", f"{1e3 * each['dense']:.0f} ms", f"{1e3 * each['sparse']:.0f} ms",
            f"{times:.2f}", f"{most:.2f}", f"{times / most:.2f}",
        ))  # fmt: skip
    return table(
        ("tokens", "density", "all blocks", "blocks of the pattern", "times as fast", "bound of 6.4", "share"), rows
    )


def told(kept: Mapping[str, Any]) -> str:
    """The tables of products, and of steps if there are any."""
    of_rows = [
        (
            length,
            f"{1e3 * each['rows']:.2f} ms",
            f"{1e3 * each['blocks']:.2f} ms",
            f"{each['rows'] / each['blocks']:.2f}",
        )
        for length, each in kept["values"].items()
    ]
    of_blocks = [
        (name, f"{each['density']:.3f}", f"{1e3 * each['blocks']:.2f} ms", f"{1e3 * each['super-blocks']:.2f} ms",
         f"{each['blocks'] / each['super-blocks']:.2f}")
        for name, each in kept["scores"].items()
    ]  # fmt: skip
    first = table(("tokens", "equally many rows", "equally many blocks", "times as fast"), of_rows)
    second = table(("pattern, tokens", "density", "by blocks", "by super-blocks", "times as fast"), of_blocks)
    return (
        f"A causal matrix of {BLOCK} x {BLOCK} blocks times {WIDTH} columns, {kept['threads']} threads:\n\n{first}\n\n"
        f"Scores of {HEADS} heads of depth {DEPTH}, super-blocks of {', '.join(map(str, SIZES))} blocks a side:\n\n"
        f"{second}"
    ) + (f"\n\nA step of the layer, 768 wide:\n\n{told_steps(kept['steps'])}" if kept.get("steps") else "")


def main(given: Sequence[str] | None = None) -> None:
    """Measure, keep, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("file", type=Path)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--seconds", type=float, default=600.0)
    options.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    options.add_argument("--steps", default="", help="tokens of the transformer's steps; compiling one takes a minute")
    asked = options.parse_args(given)
    kept: dict[str, Any] = {"threads": asked.threads, "values": {}, "scores": {}}
    if asked.file.exists():
        kept |= json.loads(asked.file.read_text())
    if asked.steps:
        example, kernel = compiled_step(asked.threads)
        for length in map(int, asked.steps.split(",")):
            kept.setdefault("steps", {}).setdefault(str(length), of_steps(example, kernel, length))
            asked.file.write_text(json.dumps(kept))
    chosen = {"fast": ("contract",), "threads": asked.threads}
    of_rows = {balanced: values(balanced).compile(**chosen) for balanced in (False, True)}
    of_blocks = {name: scores(sizes).compile(**chosen) for name, sizes in WAYS.items()}
    start = time.monotonic()
    for length in map(int, filter(None, asked.lengths.split(","))):
        if time.monotonic() - start > asked.seconds:
            break
        kept["values"].setdefault(str(length), of_values(of_rows, length))
        for name, layout in patterns(length).items():
            key = f"{name}, {length}"
            if key not in kept["scores"]:
                kept["scores"][key] = {"density": layout.density, **of_scores(of_blocks, layout)}
        asked.file.write_text(json.dumps(kept))
    print(told(kept))


if __name__ == "__main__":
    main()
