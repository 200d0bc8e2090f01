"""The recipe for typed products: sums beside NumPy's, whatever the runs are, on cores and in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.frames import frames_of

N, E, R, D = tm.params("N E R D")
r, p, k, d, n, h = tm.iters("r p k d n h")
NUMBERS = np.random.default_rng(0)
WIDE = tm.recipes.Cpu(vector_bytes=64, registers=32, first=32 << 10, second=1 << 20)
NARROW = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=512 << 10)
#: How long the runs are: none, one alone, empty ones, one longer than a block of positions.
LENGTHS = [[], [0, 0], [1], [3, 0, 500, 7, 0, 1, 90], [6, 6, 12]]


def messages(
    width: Any, terms: int = 5, memory: tm.Memory = tm.HOST
) -> tuple[tm.Function, tm.Reduction, tm.Computation]:
    """``out[p] = (x[index[p]] W[type of p]) scale[p]``."""
    f = tm.Function("messages", params=[N, E, R, *([D] if width is D else [])])
    types = f.segments("types", R, of=E)
    index = f.input("index", tm.int32, [E], values=(0, N))
    x = f.input("x", tm.float32, [N, terms], memory=memory)
    w = f.input("w", tm.float32, [R, terms, width])
    scale = f.input("scale", tm.float32, [E])
    msg = f.reduction("msg", {r: R, p: types[r], d: width}, {k: terms}, tm.sum, x[index[p], k] * w[r, k, d])
    out = f.computation("out", {r: R, p: types[r], d: width}, msg[r, p, d] * scale[p])
    f.outputs(out)
    return f, msg, out


def given(lengths: list[int], width: int, terms: int = 5) -> tuple[dict[str, Any], np.ndarray]:
    """Arguments in whole numbers, and the products one by one."""
    count, of = sum(lengths), np.repeat(np.arange(len(lengths)), lengths)
    made = {
        "types": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "index": NUMBERS.integers(0, 20, count).astype(np.int32),
        "x": NUMBERS.integers(-9, 9, (20, terms)).astype(np.float32),
        "w": NUMBERS.integers(-9, 9, (len(lengths), terms, width)).astype(np.float32),
        "scale": NUMBERS.integers(-9, 9, count).astype(np.float32),
    }
    rows = np.einsum("pk,pkd->pd", made["x"][made["index"]], made["w"][of].reshape(count, terms, width))
    return made, rows * made["scale"][:, None]


@pytest.mark.parametrize("cpu", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("width", [16, 33, 100, "any"])
def test_products_of_runs_on_cores(width: Any, cpu: tm.recipes.Cpu) -> None:
    f, _, out = messages(D if width == "any" else width)
    tm.recipes.typed_matmul(out, cpu=cpu)
    report = f.check()
    assert report.ok and report.bits == "bits preserved" and not f.show("remarks"), (report, f.show("remarks"))
    kernel = f.compile(threads=2)
    for lengths in LENGTHS:
        arguments, right = given(lengths, 37 if width == "any" else width)
        np.testing.assert_array_equal(kernel(**arguments), right)


def test_sizes_are_chosen_by_name_and_the_text_runs() -> None:
    _, _, out = messages(64)
    made = tm.recipes.typed_matmul(out, cpu=WIDE, sizes={"rows": 3, "columns": 32, "tiles": 5})
    assert "out.split(p, 15, p0, p1)" in made and "out.split(d, 32, d0, d1)" in made
    again = tm.Function.of(messages(64)[0].algorithm, made.commands)
    arguments, right = given(LENGTHS[3], 64)
    np.testing.assert_array_equal(again.compile()(**arguments), right)
    with pytest.raises(tm.ArgumentError, match="there is no size 'colums' here: there are rows, columns, tiles"):
        tm.recipes.typed_matmul(messages(64)[2], sizes={"colums": 3})


@pytest.mark.parametrize("sizes", [{}, {"coarsen": 2, "tile": 8}, {"columns": 8, "minimum_blocks": 2}], ids=str)
def test_products_of_runs_on_a_gpu(sizes: dict[str, int]) -> None:
    f, msg, out = messages(16)
    tm.recipes.typed_matmul(out, on=tm.gpu(), sizes=sizes)
    f.derive_transfers()
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    assert f.program.buffers[f.program.storages[msg.name].buffer].memory.value == "register"
    kernel = f.compile(device="simulator", sanitize=True)
    for lengths in LENGTHS[1:4]:
        arguments, right = given(lengths, 16)
        np.testing.assert_array_equal(kernel(**arguments), right)
    if "minimum_blocks" in sizes:
        assert any("minimum_blocks=2" in str(each) for each in f.commands)


@pytest.mark.parametrize("sizes", [{}, {"shared": 0}], ids=["shared", "in place"])
def test_rows_are_loaded_once_for_all_columns(sizes: dict[str, int]) -> None:
    f, _, out = messages(64, 32, tm.HOST_MAPPED)
    made = tm.recipes.typed_matmul(out, on=tm.gpu(stream=2), sizes=sizes)
    assert ("x_rows of a block in shared memory" in made.loops) == (not sizes)
    f.derive_transfers()
    report = f.check()
    assert report.ok and report.bits == "bits preserved" and not f.show("remarks"), (report, f.show("remarks"))
    kernel = f.compile(device="simulator", sanitize=True)
    lengths = [30, 1, 0, 69]
    arguments, right = given(lengths, 64, 32)
    arguments["x"] = tm.to_unified(arguments["x"], device="simulator")
    for seed in range(3):
        drawn = kernel.seeded(seed, "lazy")
        np.testing.assert_array_equal(drawn(**arguments), right)
        # A row is one line of memory. Without sharing both warps of 64 columns ask for each of its elements.
        requests = drawn.traffic["x"].requests
        assert requests >= 100 * 2 * 32 if sizes else requests <= 110


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("width", [16, 64])
def test_no_register_is_spilled(width: int, architecture: int) -> None:
    f, _, out = messages(width, 64)
    assert "minimum_blocks=4" in tm.recipes.typed_matmul(out, on=tm.gpu())
    f.derive_transfers()
    assert frames_of(f, architecture) == {("0", "0", "0")}


@pytest.mark.parametrize("recipe", [tm.recipes.typed_matmul, tm.recipes.traversal])
def test_recipes_for_a_gpu_choose_threads_themselves(recipe: Any) -> None:
    with pytest.raises(tm.ArgumentError, match=r"it chooses the threads itself: give tm\.gpu\(device, stream=\.\.\.\)"):
        recipe(messages(16)[2], on=tm.gpu(tile=64))
    with pytest.raises(tm.ArgumentError, match=f"{recipe.__name__}: on='gpu' is no GPU: give tm.gpu\\(\\), or leave"):
        recipe(messages(16)[2], on="gpu")


def heads(on_runs: bool) -> tuple[tm.Function, tm.Reduction]:
    """``msg[p, h] = x[index[p]] W[type of p, h]``, by runs of types or by an index."""
    f = tm.Function("heads", params=[N, E, R])
    index = f.input("index", tm.int32, [E], values=(0, N))
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    x, w = f.input("x", tm.float32, [N, 5]), f.input("w", tm.float32, [R, 2, 5, 24])
    types = f.segments("types", R, of=E, at=etype)
    domain: dict[Any, Any] = {r: R, p: types[r], h: 2, d: 24} if on_runs else {p: E, h: 2, d: 24}
    of: Any = r if on_runs else etype[p]
    msg = f.reduction("msg", domain, {k: 5}, tm.sum, x[index[p], k] * w[of, h, k, d])
    f.outputs(msg)
    return f, msg


@pytest.mark.parametrize("on", [None, tm.gpu()], ids=["cores", "gpu"])
@pytest.mark.parametrize("on_runs", [True, False], ids=["runs", "index"])
def test_the_sums_themselves_with_heads(on_runs: bool, on: Any) -> None:
    f, msg = heads(on_runs)
    made = tm.recipes.typed_matmul(msg, on=on)
    assert any("in runs of r" in line for line in made.loops) == on_runs
    if on is not None:
        f.derive_transfers()
    report = f.check()
    assert report.ok and report.bits == "bits preserved" and not f.show("remarks"), (report, f.show("remarks"))
    kernel = f.compile(threads=2) if on is None else f.compile(device="simulator", sanitize=True)
    for lengths in LENGTHS[2:4]:
        arguments, _ = given(lengths, 24)
        etype = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
        w = NUMBERS.integers(-9, 9, (len(lengths), 2, 5, 24)).astype(np.float32)
        named = {"index": arguments["index"], "x": arguments["x"], "w": w, "etype": etype}
        named |= {"types": arguments["types"]} if "types" in f.algorithm.inputs else {}
        right = np.einsum("pk,phkd->phd", named["x"][named["index"]], w[etype])
        np.testing.assert_array_equal(kernel(**named), right)


@pytest.mark.parametrize("on", [None, tm.gpu()], ids=["cores", "gpu"])
def test_products_by_an_index_take_along_what_reads_them(on: Any) -> None:
    f, msg = heads(on_runs=False)
    scale = f.input("scale", tm.float32, [E])
    out = f.computation("out", {p: E, h: 2, d: 24}, msg[p, h, d] * scale[p] + 1)
    f.outputs(out, replace=True)
    made = tm.recipes.typed_matmul(out, on=on)
    if on is not None:
        f.derive_transfers()
    assert "compute_at" in made and f.check().bits == "bits preserved"
    kernel = f.compile(threads=2) if on is None else f.compile(device="simulator", sanitize=True)
    arguments, _ = given(LENGTHS[3], 24)
    etype = np.repeat(np.arange(len(LENGTHS[3])), LENGTHS[3]).astype(np.int32)
    w = NUMBERS.integers(-9, 9, (len(LENGTHS[3]), 2, 5, 24)).astype(np.float32)
    named = {name: arguments[name] for name in ("index", "x", "scale", "types") if name in f.algorithm.inputs}
    right = np.einsum("pk,phkd->phd", arguments["x"][arguments["index"]], w[etype])
    found = kernel(**named, w=w, etype=etype)
    np.testing.assert_array_equal(found, right * arguments["scale"][:, None, None] + 1)


def test_what_is_no_typed_product_is_refused_with_its_reason() -> None:
    f, msg, out = messages(16)
    everything = f.reduction("everything", {}, {n: N}, tm.sum, f["x"][n, 0])
    f.outputs(out, everything, replace=True)
    with pytest.raises(tm.ArgumentError, match="everything is one sum of everything: it takes a product for each"):
        tm.recipes.typed_matmul(everything)
    of_runs = f.reduction("of_runs", {r: R}, {p: f["types"][r]}, tm.sum, f["scale"][p])
    f.outputs(out, of_runs, replace=True)
    with pytest.raises(tm.ArgumentError, match=r"of_runs sums over positions, .* tm\.recipes\.traversal takes sums"):
        tm.recipes.typed_matmul(of_runs)
    x = f["x"]
    rows = f.reduction("rows", {n: N}, {k: 5}, tm.sum, x[n, k])
    f.outputs(out, rows, replace=True)
    with pytest.raises(tm.ArgumentError, match="rows is no product of rows and matrices: one factor has its terms"):
        tm.recipes.typed_matmul(rows)
    w, others = f["w"], f.segments("others", R, of=E)
    plain = f.reduction("plain", {r: R, p: others[r], d: 16}, {k: 5}, tm.sum, x[f["index"][p], k] * w[r, k, d])
    reader = f.computation("reader", {r: R, p: f["types"][r], d: 16}, plain[r, p, d] + 1)
    f.outputs(out, reader, replace=True)
    with pytest.raises(tm.ArgumentError, match="reader and plain have no run of positions that each matrix is for"):
        tm.recipes.typed_matmul(reader)
    one = f.reduction("one", {r: R, p: f["types"][r], d: 16}, {k: 5}, tm.sum, x[f["index"][p], k] * f["w"][0, k, d])
    shared = f.computation("shared", {r: R, p: f["types"][r], d: 16}, one[r, p, d] + 1)
    f.outputs(out, shared, replace=True)
    with pytest.raises(tm.ArgumentError, match=r"one reads no matrix of its run, such as W\[r, k, d\]"):
        tm.recipes.typed_matmul(shared)
    with pytest.raises(tm.ArgumentError, match="a tile of 6 positions is no multiple of coarsen, 4"):
        tm.recipes.typed_matmul(out, on=tm.gpu(), sizes={"tile": 6})
    out.parallelize(r)
    msg.update.reorder(k, r, p, d)
    with pytest.raises(tm.ArgumentError, match="msg has been scheduled already"):
        tm.recipes.typed_matmul(out)


def test_rows_that_fill_all_registers_are_tiles_of_one() -> None:
    small = tm.recipes.Cpu(vector_bytes=16, registers=16, first=32 << 10, second=512 << 10)
    f = tm.Function("wide", params=[N, E])
    index = f.input("index", tm.int32, [E], values=(0, N))
    x, w = f.input("x", tm.float32, [N, 5]), f.input("w", tm.float32, [5, 64])
    msg = f.reduction("msg", {p: E, d: 64}, {k: 5}, tm.sum, x[index[p], k] * w[k, d])
    f.outputs(msg)
    assert "unroll" not in tm.recipes.typed_matmul(msg, cpu=small)
    at = NUMBERS.integers(0, 7, 9, np.int32)
    rows, matrix = (NUMBERS.integers(-9, 9, each).astype(np.float32) for each in ((7, 5), (5, 64)))
    np.testing.assert_array_equal(f.compile()(at, rows, matrix), rows[at] @ matrix)
