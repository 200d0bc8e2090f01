"""Scans: NumPy's accumulations, whole and in chunks that run in vectors, on threads, on GPUs and on ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import DeclarationError, DTypeError

N, S = tm.params("N S")
i, s, b, c, r, q, b0, b1 = tm.iters("i s b c r q b0 b1")
SIZES = [0, 1, 15, 16, 17, 67, 257]
CHUNKS: list[Any] = [None, {b: 16}, {b: 4, c: 4}]


def rows(op: Any = tm.sum, dtype: tm.DType = tm.int64, **options: Any) -> tuple[tm.Function, Any]:
    """The prefixes of each row."""
    f = tm.Function("rows", params=[N, S])
    a = f.input("a", dtype, [N, S])
    y = f.scan("y", {i: N, s: S}, a[i, s], op, **options)
    f.outputs(y)
    return f, y


def line(**options: Any) -> tuple[tm.Function, Any]:
    """The prefixes of one array of floats, in chunks of 16."""
    f = tm.Function("line", params=[S])
    a = f.input("a", tm.float32, [S])
    y = f.scan("y", {s: S}, a[s], tm.sum, chunks={b: 16}, **options)
    f.outputs(y)
    return f, y


def numbers(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@pytest.mark.parametrize("chunks", CHUNKS, ids=["whole", "chunks", "chunks of chunks"])
@pytest.mark.parametrize("op", ["add", "maximum", "bitwise_or"])
def test_prefixes_are_those_of_numpy(op: str, chunks: Any) -> None:
    operator, first = {"add": (tm.sum, 0), "maximum": (tm.max, -(2**63)), "bitwise_or": (tm.logical_or, 0)}[op]
    inclusive, exclusive = (rows(operator, chunks=chunks, exclusive=each)[0] for each in (False, True))
    assert inclusive.check().bits == exclusive.check().bits == "bits preserved"
    kernels = inclusive.compile(), exclusive.compile()
    for size in SIZES:
        a = np.random.default_rng(size).integers(-1000, 1000, (3, size))
        expected = getattr(np, op).accumulate(a, axis=1)
        before = np.concatenate([np.full((3, 1), first), expected], axis=1)[:, :size]
        for f, kernel, prefixes in zip((inclusive, exclusive), kernels, (expected, before), strict=True):
            np.testing.assert_array_equal(f.evaluate(a), prefixes)
            np.testing.assert_array_equal(kernel(a), prefixes)


def test_a_whole_scan_of_floats_has_the_bits_of_numpy() -> None:
    f, _ = rows(dtype=tm.float32)
    a = numbers(900).reshape(3, 300)
    assert f.compile()(a).tobytes() == np.cumsum(a, axis=1).tobytes()


def on_threads(f: tm.Function, y: Any) -> None:
    f["y_sums"].parallelize(b)
    y.split(s, 16, b, r).parallelize(b)


def in_vectors(f: tm.Function, y: Any) -> None:
    y.split(s, 16, b, r).split(b, 8, b0, b1)
    y.reorder(b0, r, b1)
    y.vectorize(b1, 8)


def on_blocks(f: tm.Function, y: Any) -> None:
    sums = f["y_sums"]
    sums.split(b, 32, b0, b1)
    sums.tag_gpu(blocks=[b0], threads=[b1])
    y.split(s, 16, b, r).split(b, 32, b0, b1)
    y.tag_gpu(blocks=[b0], threads=[b1])
    f.derive_transfers()


def trees_on_blocks(f: tm.Function, y: Any) -> None:
    sums = f["y_sums"]
    sums.init.tag_gpu(blocks=[b])
    sums.update.tag_gpu(blocks=[b], threads=[s], combine=tm.TREE)
    y.split(s, 16, b, r).split(b, 32, b0, b1)
    y.tag_gpu(blocks=[b0], threads=[b1])
    f.derive_transfers()


SCHEDULES: list[Callable[[tm.Function, Any], None]] = [on_threads, in_vectors, on_blocks, trees_on_blocks]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
def test_chunks_run_where_commands_say(schedule: Callable[[tm.Function, Any], None], exclusive: bool) -> None:
    f, y = line(exclusive=exclusive)
    schedule(f, y)
    on_gpu = schedule in (on_blocks, trees_on_blocks)
    kernel = f.compile(device="simulator", sanitize=True) if on_gpu else f.compile()
    for size in SIZES:
        a = numbers(size, seed=size)
        found, expected = kernel(a), f.evaluate(a)
        if f.check().bits == "bits preserved":
            assert found.tobytes() == expected.tobytes()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_chunks_are_those_of_ranks() -> None:
    f = tm.Function("f", params=[])
    a = f.input("a", tm.float32, [103])
    y = f.scan("y", {s: 103}, a[s], tm.sum, chunks={b: 26})
    f.outputs(y)
    a.distribute_array([s], rank=s // 26)
    f["y_sums"].tag_distribute(b)
    y.split(s, 26, q, r).tag_distribute(q)
    y.distribute_array([s], rank=s // 26)
    f.derive_transfers()
    given = numbers(103)
    assert f.simulate(a=given).tobytes() == f.evaluate(given).tobytes()


def test_what_comes_before_a_chunk_waits_for_the_chunks_before() -> None:
    f, _ = line()
    f["y_carries"].parallelize(b)
    (violation,) = f.check().violations
    assert violation.kind == "race" and violation.witness.params == {"S": 17}


def test_the_running_argmax_is_a_scan_of_two_values() -> None:
    f, _ = rows(tm.argmax, tm.float32, chunks={b: 16})
    a = np.random.default_rng(1).integers(0, 9, (2, 40)).astype(np.float32)
    values, indices = f.compile()(a)
    np.testing.assert_array_equal(values, np.maximum.accumulate(a, axis=1))
    np.testing.assert_array_equal(indices, [[int(np.argmax(row[: n + 1])) for n in range(40)] for row in a])


def test_a_saved_scan_is_read_again(tmp_path: Any) -> None:
    f, y = line()
    on_threads(f, y)
    f.save(tmp_path / "scan.json")
    a = numbers(50)
    assert tm.load(tmp_path / "scan.json").compile()(a).tobytes() == f.evaluate(a).tobytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chunks": {b: 0}}, "chunks of y over b have 0 terms"),
        ({"chunks": 16}, "give an iterator over chunks and their size"),
        ({"chunks": {s: 16}}, "s of chunks= of y is an iterator of its domain"),
        ({"chunks": {b: S}}, "chunks of y over b have S terms: give a constant"),
        ({"op": max}, "op= of y is the function max; use tm.max"),
        ({"op": "cumsum"}, "op= of y is 'cumsum'; use tm.sum"),
        ({"op": lambda a, b: a + b}, r"op= of y is a lambda; use tm.operator\(.*, lambda a, b: ..., identity\)"),
        ({"op": tm.mean}, "op= of y is tm.mean; use tm.sum, .*, and declare the steps before or after it"),
    ],
)
def test_what_is_no_scan_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        rows(**options)


def test_a_scan_that_begins_elsewhere_has_no_chunks() -> None:
    f = tm.Function("f", params=[S])
    a = f.input("a", tm.int32, [S])
    y = f.scan("y", {s: (2, S)}, a[s], tm.sum)
    f.outputs(y)
    np.testing.assert_array_equal(f.compile()(np.arange(9, dtype=np.int32))[2:], np.cumsum(np.arange(2, 9)))
    with pytest.raises(DeclarationError, match="count from 0, and s begins at 2"):
        f.scan("z", {s: (2, S)}, a[s], tm.sum, chunks={b: 8})
    with pytest.raises(DeclarationError, match="a scan along the last iterator"):
        f.scan("z", [s], a[s], tm.sum)
    with pytest.raises(DTypeError, match=r"tm\.logical_or cannot combine the float32 terms of z"):
        f.scan("z", {s: S}, tm.cast(tm.float32, a[s]), tm.logical_or)
