"""Places: scopes, layouts, registers, and who sees which array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.programs.by_hand import Author, computed, every, iters, sets, text
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import Allocate, For
from tiramisu_py.lower.lowering import lower
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.locality.compute_at import compute_at
from tiramisu_py.schedule.loops import transforms as loops


def pair(extent: str = "N") -> Program:
    """``c[i] = b[i] + b[i + 2]`` with ``b[i] = 2 * x[i]``."""
    author = Author("pair", "N", "N >= 1")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N + 2])
    b = author.computation("b", "i", f"0 <= i < {extent} + 2", x[i] * 2)
    author.computation("c", "i", f"0 <= i < {extent}", b[i] + b[i + 2])
    return author.program("c")


def answer(x: np.ndarray) -> np.ndarray:
    return 2 * x[:-2] + 2 * x[2:]


def test_temporaries_are_allocated_around_everything():
    function = lower(pair())
    assert isinstance(function.body, Allocate) and function.body.buffer == "b"
    assert [str(extent) for extent in function.body.extents] == ["N + 2"]


def test_a_buffer_of_a_loop_is_allocated_inside_it():
    program = loops.split(pair(), ["c"], "i", 4, "i0", "i1")
    function = lower(compute_at(program, "b", ["b"], ["c"], "i0", ""))
    (loop,) = [loop for loop in every(function.body, For) if loop.variable == "i0"]
    assert isinstance(loop.body, Allocate) and [str(e) for e in loop.body.extents] == ["6"]
    assert len(every(function.body, Allocate)) == 1
    for size in (1, 4, 7):
        x = np.arange(size + 2, dtype=np.float32)
        np.testing.assert_array_equal(computed(function, {"N": size}, {"x": x})["c"], answer(x))


def test_registers_are_marked():
    program = loops.split(pair(), ["c"], "i", 4, "i0", "i1")
    program = compute_at(program, "b", ["b"], ["c"], "i1", "")
    program = program.with_buffer(replace(program.buffers["b"], memory=Memory.REGISTER))
    function = lower(program)
    assert [(a.buffer, a.register) for a in every(function.body, Allocate)] == [("b", True)]
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(computed(function, {"N": 7}, {"x": x})["c"], answer(x))


def test_a_buffer_of_a_loop_that_vanishes_is_still_allocated():
    program = loops.split(pair("3"), ["c"], "i", 4, "i0", "i1")
    function = lower(compute_at(program, "b", ["b"], ["c"], "i0", ""))
    assert "i0" not in text(function.body)
    assert [a.buffer for a in every(function.body, Allocate)] == ["b"]
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(computed(function, {"N": 3}, {"x": x})["c"], answer(x))


@pytest.mark.parametrize("size", [1, 6, 13])
def test_a_buffer_of_a_loop_with_gaps_has_a_copy_for_each_iteration(size):
    author = Author("gaps", "N", "N >= 1")
    (N,) = author.params()
    i, j = iters("i j")
    x = author.input("x", ty.float32, [N, 2])
    b = author.computation("b", "i j", "0 <= i < N and 0 <= j < 2", x[i, j] * 2)
    where = "(i = 0 or i = 5 or 10 <= i) and i < N and 0 <= j < 2"
    author.computation("c", "i j", where, b[i, j] + 1, shape=[N, 2])
    program = compute_at(author.program("c"), "b", ["b"], ["c"], "i", "")
    function = lower(program)
    assert not function.arguments[1].covered
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    kept = np.array([row in (0, 5) or row >= 10 for row in range(size)])[:, None]
    np.testing.assert_array_equal(computed(function, {"N": size}, {"x": x})["c"], np.where(kept, 2 * x + 1, 0))


def folded(program: Program, modulus: int) -> Program:
    """`b` in `modulus` elements."""
    storage = program.storages["b"]
    (variable,) = sets.variables(storage.index.get_space().domain())
    index = sets.function(storage.index.get_space().domain(), None, [sets.modulo(variable, modulus)])
    buffer = replace(program.buffers["b"], extents=(Const(modulus, ty.int64),))
    return program.with_buffer(buffer).with_storage(replace(storage, index=index))


def test_a_folded_buffer_is_indexed_modulo_its_size():
    function = lower(folded(pair("4"), 7))
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(computed(function, {"N": 4}, {"x": x})["c"], answer(x))
    assert "% 7" not in text(function.body)  # 0 <= i < 6 < 7


def test_an_output_may_be_in_the_array_of_an_input():
    author = Author("inplace", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x = author.input("x", ty.float32, [N])
    author.computation("y", "i", "0 <= i < N", x[i] + 1)
    program = author.program("y")
    buffers = {name: buffer for name, buffer in program.buffers.items() if name != "y"}
    program = program.with_(buffers=buffers).with_storage(replace(program.storages["y"], buffer="x"))
    function = lower(program)
    assert [(a.name, a.is_input, a.is_output, a.covered) for a in function.arguments] == [("x", True, True, True)]
    assert function.outputs == ("x",)
    got = computed(function, {"N": 3}, {"x": np.zeros(3, np.float32)})["x"]
    np.testing.assert_array_equal(got, np.ones(3, np.float32))


def test_an_index_that_is_a_value_goes_through_the_layout():
    author = Author("reversed", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x, p = author.input("x", ty.float32, [N]), author.input("p", ty.int32, [N])
    b = author.computation("b", "i", "0 <= i < N", x[i] * 2)
    author.computation("c", "i", "0 <= i < N", b[p[i]])
    program = author.program("c")
    storage = program.storages["b"]
    space = storage.index.get_space().domain()
    (variable,) = sets.variables(space)
    turned = sets.plus(sets.parameter(space, "N").sub(variable), -1)
    program = program.with_storage(replace(storage, index=sets.function(space, None, [turned])))
    x, p = np.arange(5, dtype=np.float32), np.array([4, 0, 2, 2, 1], np.int32)
    got = computed(lower(program), {"N": 5}, {"x": x, "p": p})["c"]
    np.testing.assert_array_equal(got, 2 * x[p])


def test_a_copy_that_a_statement_cannot_see_is_an_error_that_names_the_loops():
    program = loops.split(pair(), ["c"], "i", 4, "i0", "i1")
    program = program.with_buffer(replace(program.buffers["b"], scope=program.statements["c"].loops[:1]))
    with pytest.raises(UnsupportedError, match=r"b uses b outside the loops \(i0\)"):
        lower(program)
