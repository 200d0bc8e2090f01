"""The last iterations of vector loops, in every form, type and width, where arrays end with their memory."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.backends.c.vectors.test_c_vectors import check
from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.forms import FORMS, MASKED_REDUCTIONS, Form, inputs
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, updated, var
from tests.selection import covering
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import int64
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import For, LoopFunction, Mask, Node, Ramp
from tiramisu_py.ir.rewriting import loads, with_children
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.loops import Unroll, Vector

N, i, j = size("N"), var("i"), var("j")
TYPES = (ty.bool_, ty.uint8, ty.int16, ty.float32, ty.float64)
WIDTHS = (2, 4, 8, 16, 32, 64)
#: For processors with AVX-512, with AVX2 and without either.
PROCESSORS = {64: ("-O2", "-march=native"), 32: ("-O1", "-mavx2"), 16: ("-O1",)}


def with_remainder(node: Node, remainder: str) -> Node:
    """The statement with what is left of its vector loops done in this way."""
    if isinstance(node, For) and isinstance(node.tag, Vector):
        node = replace(node, tag=replace(node.tag, remainder=remainder))
    return with_children(node, lambda child: with_remainder(child, remainder))


def together(forms: list[Form], remainder: str) -> LoopFunction:
    """One function that computes all the forms."""
    arrays = [*inputs(), *(form.argument for form in forms)]
    nodes = (with_remainder(node, remainder) for form in forms for node in form.nodes)
    return function("forms", "N M", arrays, *nodes)


def runs_again(form: Form) -> bool:
    """Whether iterations of a form may run twice."""
    return all(e.buffer != form.name for node in form.nodes for e in loads(node))


AGAIN = [form for form in FORMS if runs_again(form)]
ALL = {"mask": [*FORMS, *MASKED_REDUCTIONS], "overlap": AGAIN}
CASES = [(how, forms[k : k + 8]) for how, forms in ALL.items() for k in range(0, len(forms), 8)]


@pytest.mark.parametrize(("remainder", "forms", "register"), covering(CASES, list(PROCESSORS), each=2))
def test_every_form_computes_what_its_iterations_say(remainder: str, forms: list[Form], register: int) -> None:
    compiled = Compiled(together(forms, remainder), *PROCESSORS[register], register=register)
    for n in (0, 1, 7, 8, 9, 16, 23, 67):
        check(compiled, forms, n, 5)


@pytest.mark.parametrize("forms", [forms for remainder, forms in CASES if remainder == "mask"])
def test_every_form_is_free_of_undefined_behaviour(forms: list[Form]) -> None:
    check(Compiled(together(forms, "mask"), "-O0", *SANITISERS), forms, 13, 5, sanitised=True)


# -- at the end of memory


def doubled(width: int, remainder: str, lower: int = 0) -> LoopFunction:
    """Twice an array of each type (of a bool, the same); the arrays are as long as the loops."""
    arrays, nodes = [], []
    for dtype in TYPES:
        x = load(f"x_{dtype}", i, dtype=dtype)
        arrays += [given(f"x_{dtype}", N, dtype=dtype), result(f"y_{dtype}", N, dtype=dtype, is_input=lower > 0)]
        value = x if dtype.is_bool else x + x
        tag = Vector(width, remainder=remainder)
        nodes.append(loop("i", N, store(f"y_{dtype}", i, value, dtype), lower=lower, tag=tag))
    return function("doubled", "N", arrays, *nodes)


class Page:
    """Memory that ends where nothing may be touched."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        beyond = ctypes.c_void_p(self.start + 2 * mmap.PAGESIZE)
        assert libc.mprotect(beyond, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0

    def array(self, values: np.ndarray) -> np.ndarray:
        """A copy of an array as the last thing in it."""
        kind = ctypes.c_char * values.nbytes
        found = np.frombuffer(kind.from_address(self.start + 2 * mmap.PAGESIZE - values.nbytes), values.dtype)
        found[...] = values
        return found


def in_child(what: Callable[[], None]) -> int:
    """The signal that ends a child process that does this, 0 where it ends well, -1 where it raises."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        code = 1
        try:
            what()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.waitstatus_to_exitcode(status)


def at_the_end(compiled: Compiled, n: int) -> None:
    """Run on arrays that end with their memory, and compare."""
    pages, given_arrays = [], {}
    for dtype in TYPES:
        values = np.random.default_rng(n).integers(0, 100, n).astype(dtype.numpy)
        for name, data in ((f"x_{dtype}", values), (f"y_{dtype}", np.zeros_like(values))):
            pages.append(Page())
            given_arrays[name] = pages[-1].array(data) if n else data
    compiled({"N": n}, **given_arrays)
    for dtype in TYPES:
        x = given_arrays[f"x_{dtype}"]
        np.testing.assert_array_equal(given_arrays[f"y_{dtype}"], x if dtype.is_bool else x + x, strict=True)


@pytest.mark.parametrize(("width", "remainder"), covering(WIDTHS, ["scalar", "mask", "overlap"], each=2))
def test_nothing_is_touched_beyond_the_arrays(width: int, remainder: str) -> None:
    for register, flags in PROCESSORS.items():
        compiled = Compiled(doubled(width, remainder), *flags, register=register)
        sizes = sorted({0, 1, 2, width - 1, width, width + 1, 2 * width - 1, 3 * width + 1})
        assert in_child(lambda: [at_the_end(compiled, n) for n in sizes] and None) == 0  # noqa: B023


def test_a_mask_that_lets_too_many_lanes_through_is_noticed() -> None:
    lane = Ramp(Const(0, int64), 16)
    wrong = Mask(N + 1, 16, store("y_uint8", lane, load("x_uint8", lane, dtype=ty.uint8), ty.uint8))
    arrays = [given("x_uint8", N, dtype=ty.uint8), result("y_uint8", N, dtype=ty.uint8)]
    compiled = Compiled(function("wrong", "N", arrays, wrong))
    pages = Page(), Page()
    x, y = (page.array(np.ones(5, np.uint8)) for page in pages)
    assert in_child(lambda: compiled({"N": 5}, x_uint8=x, y_uint8=y)) == signal.SIGSEGV
    sanitised = Compiled(function("wrong", "N", arrays, wrong), "-O0", "-march=native", *SANITISERS)
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        sanitised.sanitised({"N": 5}, x_uint8=np.ones(5, np.uint8), y_uint8=np.ones(5, np.uint8))
    with pytest.raises(InterpretError, match="outside"):
        run(function("wrong", "N", arrays, wrong), {"x_uint8": np.ones(5, np.uint8), "y_uint8": np.ones(5, np.uint8)},
            {"N": 5})  # fmt: skip


@pytest.mark.parametrize("register", PROCESSORS)
@pytest.mark.parametrize("count", [-3, 0, 1, 7, 8, 9])
def test_a_count_may_be_any_number(count: int, register: int) -> None:
    nodes: list[Node] = []
    arrays = []
    for dtype in TYPES:
        lane = Ramp(Const(0, int64), 8)
        arrays += [given(f"x_{dtype}", 9, dtype=dtype), result(f"y_{dtype}", 9, dtype=dtype, is_input=True)]
        nodes.append(Mask(N - 3, 8, store(f"y_{dtype}", lane, load(f"x_{dtype}", lane, dtype=dtype), dtype)))
    compiled = Compiled(function("some", "N", arrays, *nodes), *PROCESSORS[register], register=register)
    xs = {f"x_{dtype}": np.ones(9, dtype.numpy) for dtype in TYPES}
    ys = {f"y_{dtype}": np.zeros(9, dtype.numpy) for dtype in TYPES}
    given_arrays = {name: (xs | ys)[name] for name in (a.name for a in compiled.function.arguments)}
    compiled({"N": count + 3}, **given_arrays)
    for y in ys.values():
        np.testing.assert_array_equal(y, np.arange(9) < min(count, 8))


@pytest.mark.parametrize("remainder", ["mask", "overlap"])
def test_the_machine_runs_remainders_too(remainder: str) -> None:
    for width, register in ((8, 64), (64, 16)):
        optimised = optimise(doubled(width, remainder, lower=3), register)
        for n in (0, 2, 4, 17, width + 3, 2 * width + 5):
            data = {f"x_{d}": np.ones(n, d.numpy) for d in TYPES} | {f"y_{d}": np.zeros(n, d.numpy) for d in TYPES}
            run(replace(optimised, outputs=()), data, {"N": n})
            for dtype in TYPES:
                want = 1 if dtype.is_bool else 2
                np.testing.assert_array_equal(data[f"y_{dtype}"][3:], np.full(max(n - 3, 0), want))


# -- unrolled loops


def rows(tag: Unroll) -> LoopFunction:
    """A running product over columns for each of a few rows at a time, kept in one element of y."""
    update = updated("y", i, sum_, load("x", i, j))
    body = (store("y", i, 0.0), loop("j", N, update))
    return function("rows", "N", [given("x", N, N), result("y", N)], loop("i", N, *body, tag=tag))


@pytest.mark.parametrize("remainder", ["loop", "specialize"])
@pytest.mark.parametrize("factor", [2, 3, 8])
def test_what_is_left_of_an_unrolled_loop_has_versions(factor: int, remainder: str) -> None:
    compiled = Compiled(rows(Unroll(factor, remainder)))
    for n in (0, 1, factor - 1, factor, factor + 1, 2 * factor + 1, 5 * factor - 1):
        x = np.random.default_rng(n).integers(-9, 9, (n, n)).astype(np.float32)
        y = np.zeros(n, np.float32)
        compiled({"N": n}, x=x, y=y)
        np.testing.assert_array_equal(y, x.sum(axis=1, dtype=np.float32))
