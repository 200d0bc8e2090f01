"""The host's part of functions that use GPUs: copies, events, memory, errors."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.programs.loop_ir.gpu_files import (
    Simulated,
    below,
    block,
    host_compiles,
    kernel,
    launch,
    let,
    moved,
    on_gpu,
    parameter,
    thread,
)
from tests.programs.loop_ir.gpu_kernels import blur, matmul
from tests.programs.loop_ir.short_names import function, given, load, loop, number, result, size, store, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.algorithm.types import float32, int64
from tiramisu_py.backends import emit
from tiramisu_py.backends.c.copy_boxes import levels
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Await,
    Block,
    Events,
    If,
    KernelArray,
    Launch,
    Load,
    LoopFunction,
    Node,
    OnGpus,
    Ramp,
    Record,
    Store,
)
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

N, R, C, P, i, j = size("N"), size("R"), size("C"), size("P"), var("i"), var("j")


def test_the_files_of_a_function_that_uses_gpus_are_complete() -> None:
    texts = emit(blur())
    assert {"blur.c", "blur.h", "blur.cu", "tm_runtime.h", "tm_kernel.h", "tm_gpu.h", "tm_gpu.c"} <= set(texts)
    assert "void blur_use_device(int first);" in texts["blur.h"]
    plain = function("f", "N", [result("y", N)], loop("i", N, store("y", i, 1.0)))
    assert set(emit(plain)) == {"f.c", "f.h", "tm_runtime.h"}


@pytest.mark.parametrize("program", [blur, matmul])
def test_the_host_compiles_without_a_warning(program: Any, tmp_path: Path) -> None:
    host_compiles(program(), tmp_path)


def test_the_host_of_the_blur_reads_as_written_by_hand(golden: Any) -> None:
    golden(emit(blur())["blur.c"], "blur_gpu.c")


# -- boxes


def _levels(extents: Any, source: Any, target: Any = None) -> list[tuple[str, str, str]]:
    box = levels(*(tuple(map(number, x)) for x in (extents, source, target or source)))
    return [("*".join(map(str, reversed(level.counts))) or "1", str(level.source), str(level.target)) for level in box]


def test_a_whole_array_is_one_run() -> None:
    assert _levels((R, C), (R, C)) == [("R*C", "1", "1")]
    assert _levels((5, R, C), (7, R, C), (9, R, C)) == [("5*R*C", "1", "1")]


def test_rows_of_an_array_are_one_run_and_a_box_has_lines() -> None:
    assert _levels((3, C), (R, C)) == [("3*C", "1", "1")]
    assert _levels((3, 4), (R, C)) == [("4", "1", "1"), ("3", "C", "C")]
    assert _levels((3, 4), (R, C), (R, 4)) == [("4", "1", "1"), ("3", "C", "4")]


def test_a_column_has_lines_of_one_element() -> None:
    assert _levels((R, 1), (R, C)) == [("1", "1", "1"), ("R", "C", "C")]
    assert _levels((R, 1), (R, 1)) == [("R", "1", "1")]


def test_planes_that_are_whole_in_one_direction_become_lines() -> None:
    assert _levels((2, R, 4), (P, R, C)) == [("4", "1", "1"), ("2*R", "C", "C")]
    assert len(_levels((2, 3, 4), (P, R, C))) == 3


@pytest.mark.parametrize(
    ("shape", "first", "extents"),
    [
        ((7,), (2,), (3,)),
        ((6, 7), (0, 0), (6, 7)),
        ((6, 7), (1, 2), (3, 4)),
        ((6, 7), (2, 0), (3, 7)),
        ((6, 7), (0, 3), (6, 1)),
        ((4, 5, 6), (1, 1, 1), (2, 3, 4)),
        ((4, 5, 6), (1, 0, 2), (2, 5, 3)),
        ((3, 4, 5, 6), (1, 1, 1, 1), (2, 2, 3, 4)),
        ((3, 2, 4, 5, 6), (1, 0, 1, 1, 1), (2, 1, 2, 3, 4)),
        ((6, 7), (1, 2), (0, 4)),
    ],
    ids=str,
)
def test_a_box_goes_to_the_gpu_and_back(shape: Any, first: Any, extents: Any, tmp_path: Path) -> None:
    dtype = ty.int16
    f = function(
        "f", "N", [given("a", *shape, dtype=dtype), result("b", *shape, dtype=dtype, is_input=True)],
        on_gpu("a@gpu0", shape, moved("a", extents, up=True, first=first, dtype=dtype),
               _renamed(moved("a", extents, up=False, first=first, dtype=dtype)), dtype=dtype),
        devices=1,
    )  # fmt: skip
    a = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    found = np.full(shape, -1, np.int16)
    Simulated(_with_kernel(f))({"N": 0}, a, found)
    want = np.full(shape, -1, np.int16)
    box = tuple(slice(low, low + extent) for low, extent in zip(first, extents, strict=True))
    want[box] = a[box]
    np.testing.assert_array_equal(found, want)
    host_compiles(f, tmp_path)


def _renamed(copy: Any) -> Any:
    """The copy to b instead."""
    return type(copy)(
        "b", None, copy.into, copy.source, copy.source_device, copy.first, copy.extents, copy.dtype, copy.device,
        copy.stream, copy.asynchronous, "copy_b",
    )  # fmt: skip


def _with_kernel(f: LoopFunction) -> LoopFunction:
    """With a kernel that is never launched: the simulator's library has at least one."""
    unused = kernel("unused", "", [parameter("a", 1, constant=False)], (1, 1, 1), store("a", 0, 0.0))
    return LoopFunction(f.name, f.params, f.arguments, (), f.body, gpus=OnGpus(kernels=(unused,), devices=1))


# -- streams, events, memory


def doubling(name: str = "twice") -> Any:
    """y[s, i] = 2 x[s, i] of one part s, which the host chooses."""
    s = Param("s", int64)
    body = let("i", number(64 * block() + thread()), If(below(i, N), store("y", (s, i), load("x", s, i) * 2.0)))
    arrays = [parameter("x", 8, N), parameter("y", 8, N, constant=False)]
    return kernel(name, "N s", arrays, (64, 1, 1), body)


def pipeline() -> LoopFunction:
    """Parts are copied on stream 1, computed on stream 0 and copied back on stream 2, with events between."""
    each, s = doubling(), var("s")
    up = moved("x", (1, N), up=True, first=(s, 0), asynchronous=True, stream=1)
    down = moved("y", (1, N), up=False, first=(s, 0), asynchronous=True, stream=2)
    run = Launch("twice", (number((N + 63) // 64), number(1), number(1)), (N, s), ("x@gpu0", "y@gpu0"), 0, 0)
    steps = loop(
        "s", 8, up, Record("here", (s,), 0, 1), Await("here", (s,), 0, 0, "w0"), run, Record("done", (s,), 0, 0),
        Await("done", (s,), 0, 2, "w1"), down, Record("back", (s,), 0, 2),
    )  # fmt: skip
    last = loop("s", 8, Await("back", (s,), 0, None, "w2"))
    body: Node = Block((steps, last))
    for name in ("here", "done", "back"):
        body = Events(name, (number(8),), 0, body)
    return function(
        "f", "N", [given("x", 8, N), result("y", 8, N)],
        on_gpu("x@gpu0", (8, N), on_gpu("y@gpu0", (8, N), body)),
        kernels=(each,), devices=1,
    )  # fmt: skip


def test_streams_and_events_order_what_the_host_only_issues(tmp_path: Path) -> None:
    f = pipeline()
    text = host_compiles(f, tmp_path)
    assert "tm_gpu_wait_stream(gpu, 0, 2, done[s])" in text and "tm_gpu_wait_host(gpu, back[s])" in text
    x = np.random.default_rng(0).random((8, 300), dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 300}, x, found)
    np.testing.assert_array_equal(found, 2 * x)


def test_mapped_memory_is_known_to_kernels_by_the_address_of_the_device(tmp_path: Path) -> None:
    body = let("i", number(64 * block() + thread()), If(below(i, N), store("m", i, load("m", i) + 1.0)))
    arrays = [KernelArray("m", float32, (N,), False, Memory.HOST_MAPPED)]
    each = kernel("each", "N", arrays, (64, 1, 1), body)
    run = Launch("each", (number((N + 63) // 64), number(1), number(1)), (N,), ("m",), 0, 0)
    steps = Events("done", (), 0, Block((
        loop("i", N, store("m", i, load("x", i))), run, Record("done", (), 0, 0), Await("done", (), 0, None, "w"),
        loop("i", N, store("y", i, load("m", i))),
    )))  # fmt: skip
    mapped = Allocate("m", (N,), float32, steps, memory=Memory.HOST_MAPPED, device=0)
    f = function("f", "N", [given("x", N), result("y", N)], mapped, kernels=(each,), devices=1)
    assert "(void *[]){&N, &m_device}" in host_compiles(f, tmp_path)
    x = np.arange(100, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 100}, x, found)
    np.testing.assert_array_equal(found, x + 1)


def test_pinned_memory_is_the_hosts(tmp_path: Path) -> None:
    steps = Block((
        loop("i", N, store("p", i, load("x", i))), moved("p", (N,), up=True), moved("p", (N,), up=False),
        loop("i", N, store("y", i, load("p", i))),
    ))  # fmt: skip
    pinned = Allocate("p", (N,), float32, on_gpu("p@gpu0", (N,), steps), memory=Memory.PINNED)
    f = function("f", "N", [given("x", N), result("y", N)], pinned, devices=1)
    assert "tm_gpu_allocate_host(gpu, 0, (void **)&p, NULL, " in host_compiles(f, tmp_path)
    x = np.arange(100, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(_with_kernel(f))({"N": 100}, x, found)
    np.testing.assert_array_equal(found, x)


def test_an_argument_in_the_memory_of_a_gpu_is_used_where_it_is_and_must_be_aligned_for_vectors(tmp_path: Path) -> None:
    def text(lanes: int) -> str:
        place = Ramp(number(lanes * thread()), lanes) if lanes > 1 else thread()
        body = Store("y", (place,), Load("x", (place,), float32), "y")
        each = kernel("each", "N", [parameter("x", N), parameter("y", N, constant=False)], (32, 1, 1), body)
        there = [ArrayArgument(name, float32, (N,), name == "x", name == "y", True, 1) for name in "xy"]
        f = function("f", "N", there, launch(each, (1,), device=1), kernels=(each,), devices=2)  # type: ignore[arg-type]
        assert "// x is an address in the memory of GPU 1." in emit(f)["f.h"]
        return host_compiles(f, tmp_path)

    assert "(void *[]){&x, &y}" in text(1)
    assert "(uintptr_t)x % 16 != 0" in text(4) and "% 16" not in text(1)


# -- errors


def test_a_check_that_fails_is_reported_before_a_gpu_is_asked() -> None:
    code, words = Simulated(blur()).outcome({"R": -1, "C": 4}, None, None)
    assert (code, words) == (1, "blur: R is -1, but must be at least 0")


def test_a_device_that_does_not_exist_is_said_and_the_choice_is_of_this_thread() -> None:
    compiled = Simulated(blur())
    choose = compiled.loaded.blur_use_device
    choose(ctypes.c_int(77))
    image, found = np.zeros((6, 6), np.float32), np.ones((4, 4), np.float32)
    code, words = compiled.outcome({"R": 4, "C": 4}, image, found)
    assert code == 102 and words.count("blur: ") == 1 and "77" in words
    choose(ctypes.c_int(0))
    compiled({"R": 4, "C": 4}, image, found)
    assert not found.any()


def test_a_gpu_in_a_parallel_loop_is_refused() -> None:
    f = function("f", "N", [given("x", N), result("y", N)], loop("i", N, moved("x", (N,), up=True), tag=Parallel()))
    with pytest.raises(UnsupportedError, match="inside a parallel loop"):
        emit(f)


def test_the_names_of_a_function_that_uses_gpus_do_not_meet_those_of_the_user(tmp_path: Path) -> None:
    each = kernel("each", "N", [parameter("gpu", N), parameter("f_each", N, constant=False)], (32, 1, 1),
                  let("i", thread(), store("f_each", i, load("gpu", i))))  # fmt: skip
    f = function(
        "f", "N", [given("gpu", N), result("f_each", N)],
        on_gpu("gpu@gpu0", (N,), on_gpu("f_each@gpu0", (N,), moved("gpu", (N,), up=True), launch(each, (1,)),
               moved("f_each", (N,), up=False))),
        kernels=(each,), devices=1,
    )  # fmt: skip
    host_compiles(f, tmp_path)
    x, found = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    Simulated(f)({"N": 32}, x, found)
    np.testing.assert_array_equal(found, x)
