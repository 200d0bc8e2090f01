"""The generated function as a C caller sees it: checks, errors, names, headers, text."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.compiled import Compiled
from tests.programs.loop_ir.kernels import blur
from tests.programs.loop_ir.short_names import (
    function,
    given,
    load,
    loop,
    number,
    result,
    scalar,
    size,
    store,
    temporary,
    updated,
    var,
)
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import ExternFunction
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32, uint8
from tiramisu_py.backends import emit
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import Comment, LoopFunction, Private
from tiramisu_py.ir.arithmetic.linear import LARGEST_SIZE
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.loops import Combine, Parallel, Unroll, Vector

N, M, i, j = size("N"), size("M"), var("i"), var("j")
A, a = scalar("a")


def saxpy() -> LoopFunction:
    """``z = a x + y`` for N >= 2."""
    e = a * load("x", i) + load("y", i)
    f = function(
        "saxpy",
        "N",
        [A, given("x", N), given("y", N), result("z", N)],
        loop("i", N, Comment("z[i] = a * x[i] + y[i]"), store("z", i, e), tag=Vector(16)),
        documentation=("z[i] = a * x[i] + y[i]",),
    )
    return LoopFunction(f.name, f.params, f.arguments, ((N >= 2, "N >= 2"),), f.body, labels=f.labels)


def arrays(n: int = 4) -> dict[str, Any]:
    return {"a": 2.0, "x": np.ones(n, np.float32), "y": np.ones(n, np.float32), "z": np.zeros(n, np.float32)}


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return Compiled(saxpy())


def test_a_good_call_returns_0_and_no_words(compiled: Compiled) -> None:
    assert compiled.outcome({"N": 4}, **arrays()) == (0, "")


@pytest.mark.parametrize(
    ("n", "code", "words"),
    [
        (-1, 1, ["N is -1", "at least 0"]),
        (1, 1, ["needs N >= 2", "N = 1"]),
        (LARGEST_SIZE + 1, 2, [f"N is {LARGEST_SIZE + 1}", "too large"]),
        (2**62, 2, ["N is 4611686018427387904", "too large"]),
    ],
)
def test_wrong_sizes_are_refused_in_words(compiled: Compiled, n: int, code: int, words: list[str]) -> None:
    found, error = compiled.outcome({"N": n}, **arrays())
    assert found == code
    assert all(part in error for part in ["saxpy", *words]), error


@pytest.mark.parametrize("name", ["x", "y", "z"])
def test_null_pointers_are_refused_by_name(compiled: Compiled, name: str) -> None:
    code, error = compiled.outcome({"N": 4}, **{**arrays(), name: None})
    assert (code, error) == (3, f"saxpy: {name} is NULL, but has elements")


def test_null_pointers_of_empty_arrays_are_accepted() -> None:
    copy = function("copy", "N", [given("x", N), result("y", N)], loop("i", N, store("y", i, load("x", i))))
    assert Compiled(copy).code({"N": 0}, x=None, y=None) == 0


def test_an_output_that_overlaps_is_refused_and_inputs_may_overlap(compiled: Compiled) -> None:
    memory = np.zeros(10, np.float32)
    code, error = compiled.outcome({"N": 4}, **{**arrays(), "x": memory[1:5], "z": memory[4:8]})
    assert code == 4
    assert "z" in error
    assert "x" in error
    assert compiled.code({"N": 4}, **{**arrays(), "x": memory[1:5], "z": memory[5:9]}) == 0
    assert compiled.code({"N": 4}, **{**arrays(), "x": memory[1:5], "y": memory[2:6]}) == 0


def test_arrays_that_share_one_byte_overlap() -> None:
    copy = function("copy", "N", [given("x", N, dtype=uint8), result("y", N, dtype=uint8)],
                    loop("i", N, store("y", i, load("x", i, dtype=uint8), uint8)))  # fmt: skip
    memory, compiled = np.zeros(10, np.uint8), Compiled(copy)
    assert compiled.code({"N": 4}, x=memory[3:7], y=memory[:4]) == 4
    assert compiled.code({"N": 4}, x=memory[:4], y=memory[3:7]) == 4
    assert compiled.code({"N": 4}, x=memory[4:8], y=memory[:4]) == 0


def test_products_of_extents_that_overflow_are_refused() -> None:
    fill = function("fill", "N M", [result("y", N, M, N)], loop("i", N, store("y", (i, 0, 0), 1.0)))
    code, error = Compiled(fill).outcome({"N": 2**40, "M": 2**20}, y=np.zeros(1, np.float32))
    assert code == 2
    assert "y has more bytes" in error


def test_errors_belong_to_the_thread_that_made_them(compiled: Compiled) -> None:
    errors: list[str] = []

    def wrong() -> None:
        errors.append(compiled.outcome({"N": -5}, **arrays())[1])

    assert compiled.code({"N": 1}, **arrays()) == 1
    thread = threading.Thread(target=wrong)
    thread.start()
    thread.join()
    assert "N is -5" in errors[0]


def test_missing_memory_for_a_temporary_is_an_error() -> None:
    body = temporary("t", (N, N, M), store("t", (0, 0, 0), 1.0), store("y", 0, load("t", N - N, N - 1, M - 1)))
    code, error = Compiled(function("f", "N M", [result("y", 1)], body)).outcome(
        {"N": 2**20, "M": 2**10}, y=np.zeros(1, np.float32)
    )
    assert code == 5
    assert "temporary array t" in error


def test_large_temporaries_are_on_the_heap_and_small_ones_on_the_stack() -> None:
    def through(count: int) -> str:
        f = function(
            "f",
            "N",
            [given("x", N), result("y", N)],
            temporary(
                "t", (count,), loop("i", N, store("t", i, load("x", i))), loop("i", N, store("y", i, load("t", i)))
            ),
        )
        compiled = Compiled(f)
        x, y = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
        compiled({"N": 9}, x=x, y=y)
        np.testing.assert_array_equal(x, y)
        return compiled.source

    assert "tm_allocate" not in through(100)
    assert "tm_allocate" in through(20000)


def test_names_that_c_reserves_are_changed_and_still_work() -> None:
    f = function(
        "f",
        "int",
        [given("double", size("int")), result("exp", size("int"))],
        loop("for", size("int"), store("exp", var("for"), load("double", var("for")) + 1.0), tag=Vector(4)),
    )
    compiled = Compiled(f)
    found = np.zeros(6, np.float32)
    given_arrays = {"double": np.ones(6, np.float32), "exp": found}
    compiled({"int": 6}, **given_arrays)
    np.testing.assert_array_equal(found, 2)


def test_names_that_generated_code_makes_are_not_taken_from_the_user() -> None:
    names = [
        "x",
        "x_bytes",
        "wrong",
        "e",
        "t",
        "y_own",
        "y_copies",
        "y_slot",
        "y_elements",
        "lane",
        "c_end",
        "INT32_MAX",
        "tm_e",
        "load_x",
    ]
    total = sum((load(name, i) for name in names[1:]), load("x", i))
    private = (Private("y", sum_, Combine.PRIVATE),)
    summed = loop("i", N, updated("y", 0, sum_, total), tag=Parallel(combine=Combine.PRIVATE), reductions=private)
    gathered = loop("c", N, store("z", i + (var("c") - i) // 2 * 0, 1.0))
    f = function(
        "f", "N", [*(given(name, N) for name in names), result("y", 1, is_input=True), result("z", N)],
        summed, loop("i", N, gathered, tag=Vector(4)),
    )  # fmt: skip
    y, z = np.zeros(1, np.float32), np.zeros(9, np.float32)
    arrays = {name: np.ones(9, np.float32) for name in names}
    Compiled(f)({"N": 9}, **arrays, y=y, z=z)
    assert y[0] == 9 * len(names)
    np.testing.assert_array_equal(z, 1)


@pytest.mark.parametrize("name", ["exp", "main", "while", "tm_f"])
def test_a_function_name_that_c_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        emit(function(name, "N", [result("y", N)], loop("i", N, store("y", i, 1.0))))


def test_loops_that_passes_should_have_removed_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="loop i"):
        emit(function("f", "N", [result("y", N)], loop("i", N, store("y", i, 1.0), tag=Unroll(2))))


def test_functions_of_the_user_are_called_in_scalar_and_vector_code() -> None:
    source = "static float twice_plus(float x, float y) { return 2 * x + y; }"
    extern = ExternFunction("twice_plus", (float32, float32), float32, lambda x, y: 2 * x + y, source=source)
    f = function(
        "f",
        "N",
        [given("x", N), result("y", N)],
        loop("i", N, store("y", i, extern(load("x", i), 1.0)), tag=Vector(4)),
        externs=(extern,),
    )
    x, y = np.arange(11, dtype=np.float32), np.zeros(11, np.float32)
    Compiled(f)({"N": 11}, x=x, y=y)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_halves_travel_as_their_bits() -> None:
    h = scalar("h", ty.float16)
    f = function("f", "N", [h[0], result("y", N, dtype=ty.float16)], loop("i", N, store("y", i, h[1], ty.float16)))
    y = np.zeros(3, np.float16)
    Compiled(f)({"N": 3}, h=np.float16(1.5), y=y)
    np.testing.assert_array_equal(y, np.float16(1.5))


def test_the_header_alone_is_enough_for_c_and_the_text_is_always_the_same(tmp_path: Path) -> None:
    texts = emit(optimise(saxpy()))
    assert texts == emit(optimise(saxpy()))
    (tmp_path / "saxpy.h").write_text(texts["saxpy.h"])
    (tmp_path / "main.c").write_text('#include "saxpy.h"\nint main(void) { return saxpy_last_error() == 0; }\n')
    strict = ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-c", "main.c"]
    subprocess.run(strict, cwd=tmp_path, check=True)


def test_the_text_of_a_small_kernel_reads_well(golden: Callable[[str, str], None]) -> None:
    texts = emit(optimise(saxpy()))
    golden(texts["saxpy.c"], "saxpy.c")
    golden(texts["saxpy.h"], "saxpy.h")


def test_the_text_of_a_blur_in_registers_reads_well(golden: Callable[[str, str], None]) -> None:
    golden(emit(optimise(blur(2, 8)))["blur.c"], "blur_registers.c")


def test_comments_cannot_break_the_source() -> None:
    comment = Comment("ends in a backslash \\\n*/ and starts a line")
    f = function("f", "N", [result("y", N)], loop("i", N, comment, store("y", i, 1.0), tag=Parallel()))
    y = np.zeros(2, np.float32)
    Compiled(f)({"N": 2}, y=y)
    np.testing.assert_array_equal(y, 1)


def test_names_used_twice_in_a_block_get_blocks_of_their_own() -> None:
    def part(value: float) -> Any:
        return temporary("t", (number(2),), store("t", i % 2, value), store("y", i, load("y", i) + load("t", i % 2)))

    f = function("f", "N", [result("y", N, is_input=True)], loop("i", N, part(1.0), part(2.0)))
    y = np.zeros(3, np.float32)
    Compiled(f)({"N": 3}, y=y)
    np.testing.assert_array_equal(y, 3)
