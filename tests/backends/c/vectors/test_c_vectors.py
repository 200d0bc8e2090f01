"""Vector loops in all their forms, on awkward sizes, for several processors, and under the sanitisers."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.forms import FORMS, REDUCTIONS, Form, N, i, inputs, samples
from tests.programs.loop_ir.short_names import function, given, load, loop, store
from tests.selection import covering
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.ir import LoopFunction
from tiramisu_py.program.loops import Vector

ALL = [*FORMS, *REDUCTIONS]
#: Functions of fewer arguments compile faster.
GROUPS = [ALL[start : start + 8] for start in range(0, len(ALL), 8)]
SIZES = [0, 1, 2, 3, 7, 8, 9, 16, 17, 31, 64, 67]


def together(forms: list[Form]) -> LoopFunction:
    """One function that computes all the forms."""
    arrays = [*inputs(), *(form.argument for form in forms)]
    return function("forms", "N M", arrays, *(node for form in forms for node in form.nodes))


def before(form: Form, n: int, m: int) -> Any:
    """What the array of a form holds before the call."""
    shape = tuple(extent if isinstance(extent, int) else n if extent is N else m for extent in form.extents)
    return np.full(shape, -1, form.dtype.numpy)


def check(compiled: Compiled, forms: list[Form], n: int, m: int, sanitised: bool = False) -> None:
    """The forms computed by compiled code are those of NumPy, bit for bit."""
    data = samples(n, m)
    found = {form.name: before(form, n, m) for form in forms}
    if sanitised:
        found = compiled.sanitised({"N": n, "M": m}, **data, **found)
    else:
        compiled({"N": n, "M": m}, **data, **found)
    for form in forms:
        want = form.want(data, before(form, n, m)).astype(form.dtype.numpy)
        np.testing.assert_array_equal(found[form.name], want, err_msg=f"{form.name} at N = {n}, M = {m}", strict=True)


@pytest.mark.parametrize("form", ALL, ids=lambda form: form.name)
def test_a_vector_loop_computes_what_its_iterations_say(form: Form) -> None:
    compiled = Compiled(together([form]))
    for n in SIZES:
        for m in (1, 5):
            check(compiled, [form], n, m)


@pytest.mark.parametrize("register", [4, 16, 32])
def test_vectors_in_parts_compute_the_same(register: int) -> None:
    for group in GROUPS:
        compiled = Compiled(together(group), "-O1", register=register)
        for n in (0, 5, 16, 67):
            check(compiled, group, n, 5)


@pytest.mark.parametrize(
    "flags",
    [("-O0",), ("-O2",), ("-O3", "-march=x86-64-v3"), ("-O2", "-march=x86-64-v4")],
    ids=lambda flags: " ".join(flags),
)
def test_all_forms_are_the_same_on_every_processor_and_optimisation(flags: tuple[str, ...]) -> None:
    for group in GROUPS:
        compiled = Compiled(together(group), *flags)
        for n in (0, 5, 67):
            check(compiled, group, n, 5)


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang: apt-get install clang libomp-dev")
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-march=native"), ("-O3", "-march=x86-64")], ids=" ".join)
def test_all_forms_are_the_same_with_the_other_compiler(flags: tuple[str, ...]) -> None:
    for group in GROUPS:
        compiled = Compiled(together(group), *flags, compiler="clang")
        for n in (0, 5, 67):
            check(compiled, group, n, 5)


def test_all_forms_run_without_openmp() -> None:
    for group in GROUPS:
        check(Compiled(together(group), "-O1", threads=False), group, 67, 5)


def test_all_forms_are_free_of_undefined_behaviour() -> None:
    for group in GROUPS:
        compiled = Compiled(together(group), "-O0", "-march=native", *SANITISERS)
        for n in (0, 67):
            check(compiled, group, n, 5, sanitised=True)


@pytest.mark.parametrize(
    ("width", "dtype"),
    covering([2, 4, 8, 16, 32, 64], [ty.bool_, ty.int8, ty.uint16, ty.int64, ty.float32, ty.float64]),
    ids=str,
)
def test_every_width_copies_every_type(dtype: DType, width: int) -> None:
    x = load("x", i, dtype=dtype)
    copy = function(
        "copy", "N", [given("x", N, dtype=dtype), Form("y", (N,), (), lambda d, b: b, dtype).argument],
        loop("i", N, store("y", i, x, dtype), tag=Vector(width)),
    )  # fmt: skip
    compiled = Compiled(copy, "-O1")
    for n in (0, width - 1, width, 3 * width + 1):
        values = np.random.default_rng(n).integers(0, 2, n).astype(dtype.numpy)
        found = np.zeros(n, dtype.numpy)
        compiled({"N": n}, x=values, y=found)
        np.testing.assert_array_equal(found, values)
