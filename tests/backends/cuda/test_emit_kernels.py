"""Kernels of every form: their text, the compilers that take it, and what they compute on the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.programs.loop_ir.gpu_files import (
    NVCC,
    Simulated,
    as_members,
    below,
    block,
    kernel,
    launch,
    let,
    moved,
    nvcc,
    on_gpu,
    parameter,
    shared,
    thread,
)
from tests.programs.loop_ir.gpu_kernels import blur, matmul
from tests.programs.loop_ir.short_names import (
    function,
    given,
    load,
    loop,
    number,
    result,
    size,
    store,
    temporary,
    updated,
    var,
)
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.conversions import typed as in_type
from tiramisu_py.algorithm.expressions import Expr, ExternFunction, binary, select
from tiramisu_py.algorithm.operators import Operator, max_, min_, product, sum_
from tiramisu_py.algorithm.types import DType, float32
from tiramisu_py.backends.cuda.kernel_text import emit_kernels, kernel_names, signatures
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Barrier,
    Block,
    Declare,
    Deferred,
    GpuIndex,
    If,
    KernelFunction,
    Lane,
    Load,
    LoopFunction,
    Node,
    OnGpus,
    Ramp,
    Store,
    TreeReduce,
    Variable,
)
from tiramisu_py.program.loops import Unroll, Vector
from tiramisu_py.program.storage import Memory

N, i, k = size("N"), var("i"), var("k")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not on this machine")


def on_vectors(
    each: KernelFunction, grid: Any, x: DType = float32, y: DType = float32, y_size: Any = N
) -> LoopFunction:
    """A function that applies a kernel to x, and returns y."""
    return function(
        "f", "N", [given("x", N, dtype=x), result("y", y_size, dtype=y, is_input=True)],
        on_gpu("x@gpu0", (N,), on_gpu("y@gpu0", (y_size,),
            moved("x", (N,), up=True, dtype=x), moved("y", (y_size,), up=True, dtype=y), launch(each, (grid,)),
            moved("y", (y_size,), up=False, dtype=y), dtype=y), dtype=x),
        kernels=(each,), devices=1,
    )  # fmt: skip


def over(body: Node, threads: int = 64, x: DType = float32, y: DType = float32, y_size: Any = N) -> LoopFunction:
    """A kernel on x and y, on as many blocks as there are elements."""
    arrays = [parameter("x", N, dtype=x), parameter("y", y_size, dtype=y, constant=False)]
    each = kernel("each", "N", arrays, (threads, 1, 1), body)
    return on_vectors(each, number((N + (threads - 1)) // threads), x, y, y_size)


def indexed(threads: int, *body: Node) -> Node:
    """The body with i, the number of the thread among all, below N."""
    return let("i", number(threads * block() + thread()), If(below(i, N), Block(body)))


# -- text


def test_the_blur_reads_as_written_by_hand(golden: Callable[[str, str], None]) -> None:
    golden(emit_kernels(blur()), "blur.cu")


def test_the_product_reads_as_written_by_hand(golden: Callable[[str, str], None]) -> None:
    golden(emit_kernels(matmul()), "matmul.cu")


def test_a_signature_lists_sizes_then_arrays_with_the_shape_of_a_block() -> None:
    (by,) = signatures(blur())
    assert (by.name, by.block, by.cooperates) == ("blur_by", (16, 16, 1), False)
    assert [(p.name, p.c_type, p.is_pointer, p.is_constant) for p in by.parameters] == [
        ("R", "int64_t", False, False),
        ("C", "int64_t", False, False),
        ("image", "float", True, True),
        ("by", "float", True, False),
    ]
    assert signatures(matmul())[0].cooperates


def test_names_that_cuda_has_for_itself_are_changed(tmp_path: Path) -> None:
    body = let(
        "threadIdx", number(64 * block() + thread()), store("this", var("threadIdx"), load("class", var("threadIdx")))
    )
    arrays = [parameter("class", N), parameter("this", N, constant=False)]
    each = kernel("gamma", "N", arrays, (64, 1, 1), body)
    f = function("f", "N", [given("class", N), result("this", N)], launch(each, (1,)), kernels=(each,), devices=1)
    assert kernel_names(f) == {"gamma": "f_gamma"}
    as_members(f, tmp_path)


def test_a_size_that_is_not_used_is_no_parameter_and_an_array_that_is_not_is_no_warning(tmp_path: Path) -> None:
    arrays = [parameter("x", N), parameter("y", N, constant=False)]
    f = on_vectors(kernel("each", "N", arrays, (1, 1, 1), store("y", 0, 1.0)), 1)
    as_members(f, tmp_path)
    assert "f_each(const float *TM_RESTRICT x, float *TM_RESTRICT y)" in emit_kernels(f)
    assert "(void)x;" in emit_kernels(f)


def test_a_barrier_waits_for_what_was_deferred_before_it() -> None:
    text = emit_kernels(matmul(deferred=True))
    assert text.count("TM_ASYNC_COPY(") == 2
    assert text.count("TM_ASYNC_WAIT();\n    TM_BARRIER();") == 2
    assert "TM_ASYNC" not in emit_kernels(matmul())


@needs_nvcc
@pytest.mark.parametrize("program", [blur, matmul, lambda: matmul(deferred=True)], ids=["blur", "matmul", "deferred"])
def test_nvcc_compiles_kernels_without_a_warning(program: Callable[[], LoopFunction], tmp_path: Path) -> None:
    nvcc(program(), tmp_path)


# -- what they compute


@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (33, 50)])
def test_the_blur_runs_in_the_simulator(shape: tuple[int, int]) -> None:
    rows, columns = shape
    image = np.random.default_rng(0).random((rows + 2, columns + 2), dtype=np.float32)
    found = np.zeros(shape, np.float32)
    Simulated(blur())({"R": rows, "C": columns}, image, found)
    total = image[:rows, :columns].copy()
    for di, dj in [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]:
        total += image[di : di + rows, dj : dj + columns]
    np.testing.assert_array_equal(found, total / np.float32(9))


@pytest.mark.parametrize("deferred", [False, True])
def test_the_product_runs_in_the_simulator(deferred: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((32, 64), dtype=np.float32), rng.random((64, 48), dtype=np.float32)
    found = np.zeros((32, 48), np.float32)
    Simulated(matmul(deferred))({"N": 32, "M": 48, "K": 64}, a, b, found)
    want = np.zeros_like(found)
    for step in range(64):
        want += a[:, step : step + 1] * b[step : step + 1]
    np.testing.assert_array_equal(found, want)


def test_the_checks_of_the_simulator_find_nothing_wrong_with_tiles_vectors_and_trees() -> None:
    a = np.ones((32, 32), np.float32)
    Simulated(matmul(deferred=True), checked=True)({"N": 32, "M": 32, "K": 32}, a, a, np.zeros_like(a))
    value = select(below(i, N), load("x", i), number(0))
    tree = let("i", number(96 * block() + thread()), tree_into("y", number(0), typed(value), sum_))
    total = np.zeros(1, np.float32)
    Simulated(over(tree, 96, y_size=1), checked=True)({"N": 200}, np.ones(200, np.float32), total)
    assert total[0] == 200
    vectors = Store("y", (lanes(4 * i),), typed(vector_load("x", 4 * i) + vector_load("x", 4 * i)), "y")
    x = np.arange(256, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(over(indexed(64, If(below(4 * i, N), vectors))), checked=True)({"N": 256}, x, found)
    np.testing.assert_array_equal(found, 2 * x)


def test_a_grid_stride_loop_lets_few_blocks_do_everything(tmp_path: Path) -> None:
    stride = number(64 * GpuIndex("grid", 0))
    here = let("stride", stride, let("at", number(64 * block() + thread()), loop(
        "n", (N + var("stride") - 1 - var("at")) // var("stride"),
        let("i", number(var("at") + var("n") * var("stride")), store("y", i, load("x", i) * 2.0)),
    )))  # fmt: skip
    arrays = [parameter("x", N), parameter("y", N, constant=False)]
    f = on_vectors(kernel("each", "N", arrays, (64, 1, 1), here), 3)
    x = np.arange(1000, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 1000}, x, found)
    np.testing.assert_array_equal(found, 2 * x)
    if NVCC is not None:
        nvcc(f, tmp_path, ("sm_75",))


def tree_into(buffer: str, at: Expr, value: Expr, operator: Operator) -> Allocate:
    """A block's values combined in a tree; its first thread adds the result to an element, atomically."""
    part = Load("part", (), value.dtype)
    added = replace(updated(buffer, at, operator, part, value.dtype), atomic=True)
    tree = TreeReduce(("part",), (), (value,), value.dtype, operator, "total")
    body = Block((Store("part", (), value, "total"), tree, If(below(thread(), 1), added)))
    return Allocate("part", (), value.dtype, body, memory=Memory.REGISTER)


OPERATORS = {
    "sum": (sum_, np.add),
    "max": (max_, np.maximum),
    "min": (min_, np.minimum),
    "prod": (product, np.multiply),
}


@pytest.mark.parametrize(
    ("name", "threads"),
    [("sum", 1), ("sum", 32), ("sum", 48), ("sum", 256), ("max", 48), ("min", 256), ("prod", 32)],
)
def test_a_tree_combines_the_values_of_a_block_and_then_the_blocks(name: str, threads: int, tmp_path: Path) -> None:
    operator, in_numpy = OPERATORS[name]
    inside = select(below(i, N), load("x", i, dtype=ty.int32), operator.identity(ty.int32))
    body = let("i", number(threads * block() + thread()), tree_into("y", number(0), inside, operator))
    f = over(body, threads, ty.int32, ty.int32, 1)
    x = np.random.default_rng(0).integers(1, 4, 777).astype(np.int32)
    found = np.full(1, 5, np.int32)
    Simulated(f)({"N": len(x)}, x, found)
    assert found[0] == in_numpy(np.int32(5), in_numpy.reduce(x))
    if NVCC is not None:
        nvcc(f, tmp_path, ("sm_75",))


def test_trees_in_a_loop_do_not_disturb_each_other() -> None:
    value = load("x", number(64 * k + thread()), dtype=ty.int64)
    body = loop("k", N // 64, tree_into("y", number(k), value, sum_))
    f = over(body, 64, ty.int64, ty.int64)
    f = on_vectors(f.gpus.kernels[0], 1, ty.int64, ty.int64)
    x = np.random.default_rng(0).integers(-9, 9, 640)
    found = np.zeros(640, np.int64)
    Simulated(f, checked=True)({"N": 640}, x, found)  # fibers that happen to run in turn would show nothing
    np.testing.assert_array_equal(found[:10], x.reshape(10, 64).sum(axis=1))


ATOMIC_TYPES = (ty.int8, ty.uint16, ty.int32, ty.uint32, ty.int64, ty.uint64, ty.float16, ty.float32, ty.float64)


@pytest.mark.parametrize("dtype", ATOMIC_TYPES, ids=str)
def test_atomic_updates_lose_nothing(dtype: DType, tmp_path: Path) -> None:
    ten = number(i % 10)

    def atomically(operator: Operator, place: Any) -> Store:
        plain = updated("y", place, operator, load("x", i, dtype=dtype), dtype)
        return Store(plain.buffer, plain.indices, plain.value, "y", plain.update, atomic=True)

    limited = Operator("limited", lambda a, b: binary("min", binary("+", a, b), number(100)), lambda _: 0)
    f = over(
        indexed(64, atomically(sum_, ten), atomically(max_, ten + 10), atomically(limited, ten + 20)),
        64,
        dtype,
        dtype,
        30,
    )
    x = np.random.default_rng(0).integers(0, 3, 200).astype(dtype.numpy)
    found = np.zeros(30, dtype.numpy)
    Simulated(f)({"N": 200}, x, found)
    columns = x.reshape(20, 10)
    np.testing.assert_array_equal(found[:10], columns.sum(axis=0))
    np.testing.assert_array_equal(found[10:20], columns.max(axis=0))
    np.testing.assert_array_equal(found[20:], np.minimum(columns.sum(axis=0), 100))
    assert emit_kernels(f).count("tm_atomic_update(") == 1
    if NVCC is not None:
        nvcc(f, tmp_path, ("sm_75",))


def test_registers_are_local_arrays_and_unrolled_loops_ask_for_it() -> None:
    body = temporary(
        "r", (4,),
        loop("k", 4, store("r", k, load("x", 4 * i + k) * 3.0), tag=Unroll()),
        loop("k", 4, store("y", 4 * i + k, load("r", 3 - k)), tag=Unroll(2)),
        register=True,
    )  # fmt: skip
    f = over(let("i", number(64 * block() + thread()), If(below(4 * i, N), body)))
    text = emit_kernels(f)
    assert "float r[4];" in text and "#pragma unroll\n" in text and "#pragma unroll 2\n" in text
    x = np.arange(256, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 256}, x, found)
    np.testing.assert_array_equal(found, 3 * x.reshape(-1, 4)[:, ::-1].ravel())


# -- vectors


def typed(value: Any) -> Any:
    """The value in float32."""
    return in_type(value, float32)


def lanes(base: Any, count: int = 4) -> Ramp:
    return Ramp(number(base), count)


def vector_load(buffer: str, base: Any, count: int = 4, dtype: DType = float32) -> Load:
    return Load(buffer, (lanes(base, count),), dtype)


def test_aligned_neighbours_are_loaded_and_stored_at_once(tmp_path: Path) -> None:
    value = vector_load("x", 4 * i) * 2.0 + 1.0
    f = over(indexed(64, If(below(4 * i, N), Store("y", (lanes(4 * i),), typed(value), "y"))))
    text = emit_kernels(f)
    assert "const tm_vec<float, 4> tm_v0 = tm_load<4>(&x[4*i]);" in text and "tm_store(&y[4*i], tm_value);" in text
    x = np.arange(256, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 256}, x, found)
    np.testing.assert_array_equal(found, 2 * x + 1)
    if NVCC is not None:
        nvcc(f, tmp_path)


def test_neighbours_that_may_not_be_aligned_are_loaded_one_by_one() -> None:
    f = over(indexed(64, If(below(4 * i + 4, N), Store("y", (lanes(4 * i),), vector_load("x", 4 * i + 1), "y"))))
    text = emit_kernels(f)
    assert "tm_load" not in text and "tm_store(&y[4*i], tm_value);" in text
    x = np.arange(256, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 256}, x, found)
    np.testing.assert_array_equal(found[:252], x[1:253])


def test_a_size_that_is_a_multiple_keeps_rows_aligned() -> None:
    def text(precondition: bool) -> str:
        whole = Load("x", (number(block()), lanes(4 * thread())), float32)
        body = Store("y", (number(block()), lanes(4 * thread())), whole, "y")
        arrays = [parameter("x", N, N), parameter("y", N, N, constant=False)]
        each = kernel("each", "N", arrays, (8, 1, 1), body)
        f = function("f", "N", [given("x", N, N), result("y", N, N)], launch(each, (N,)), kernels=(each,), devices=1)
        known = ((number(N % 8) == 0, "N is a multiple of 8"),) if precondition else ()
        return emit_kernels(
            LoopFunction(f.name, f.params, f.arguments, known, f.body, gpus=OnGpus(kernels=f.gpus.kernels, devices=1))
        )

    assert "tm_store(&y[block_x*N + 4*thread_x], tm_load<4>(&x[block_x*N + 4*thread_x]));" in text(True)
    assert "tm_load" not in text(False) and "tm_store" not in text(False)


def test_vector_variables_are_computed_lane_by_lane(tmp_path: Path) -> None:
    total = Variable("total", float32)
    body = Block((
        Declare("total", vector_load("x", 4 * i), 4),
        loop("k", 3, Assign("total", typed(total * 2.0), "y")),
        Store("y", (lanes(4 * i),), total, "y"),
        store("y", 4 * i, Lane(total, number(1), float32)),
    ))  # fmt: skip
    f = over(indexed(64, If(below(4 * i, N), body)))
    x = np.arange(256, dtype=np.float32)
    found = np.zeros_like(x)
    Simulated(f)({"N": 256}, x, found)
    want = (8 * x).reshape(-1, 4)
    want[:, 0] = want[:, 1]
    np.testing.assert_array_equal(found, want.ravel())
    if NVCC is not None:
        nvcc(f, tmp_path, ("sm_80",))


@pytest.mark.parametrize(
    ("dtype", "count", "size_in_bytes"), [(ty.float32, 4, 16), (ty.float64, 1, 8), (ty.uint8, 4, 4)]
)
def test_deferred_copies_have_4_8_or_16_bytes(dtype: DType, count: int, size_in_bytes: int, tmp_path: Path) -> None:
    here = number(count * thread())
    place = lanes(here, count) if count > 1 else here
    fill = Deferred(Store("t", (place,), Load("x", (place,), dtype), "t"))
    back = loop("k", count, store("y", here + k, load("t", number(count * 32 - 1) - here - k, dtype=dtype), dtype))
    f = over(shared("t", (32 * count,), fill, Barrier("y"), back, dtype=dtype), 32, dtype, dtype)
    f = on_vectors(f.gpus.kernels[0], 1, dtype, dtype)
    assert f"TM_ASYNC_COPY(&t[{here if count > 1 else 'thread_x'}".replace("threadIdx.x", "thread_x")[
        :17
    ] in emit_kernels(f)
    assert f", {size_in_bytes});" in emit_kernels(f)
    x = np.arange(32 * count).astype(dtype.numpy)
    found = np.zeros_like(x)
    Simulated(f)({"N": len(x)}, x, found)
    np.testing.assert_array_equal(found, x[::-1])
    if NVCC is not None:
        nvcc(f, tmp_path)


def test_a_deferred_copy_that_hardware_does_not_have_is_a_plain_one() -> None:
    fill = Deferred(store("t", thread(), load("x", thread(), dtype=ty.uint8), ty.uint8))
    body = shared(
        "t",
        (32,),
        fill,
        Barrier("y"),
        store("y", thread(), load("t", thread(), dtype=ty.uint8), ty.uint8),
        dtype=ty.uint8,
    )
    assert "TM_ASYNC_COPY" not in emit_kernels(over(body, 32, ty.uint8, ty.uint8))


# -- refused


def test_a_function_of_the_host_in_a_kernel_is_refused() -> None:
    half = ExternFunction(
        "half", (float32,), float32, lambda x: x / 2, source="static float half(float x) { return x / 2; }"
    )
    with pytest.raises(UnsupportedError, match="a kernel cannot call half"):
        emit_kernels(over(indexed(64, store("y", i, half(load("x", i))))))


def test_a_loop_that_is_still_tagged_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="loop k of a kernel is still tagged vector"):
        emit_kernels(over(loop("k", 4, store("y", k, 0.0), tag=Vector(4))))


def test_vectors_wider_than_those_of_gpus_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no vectors of 8 float32"):
        emit_kernels(
            over(
                Block(
                    (Declare("v", vector_load("x", 0, 8), 8), Store("y", (lanes(0, 8),), Variable("v", float32), "y"))
                )
            )
        )
