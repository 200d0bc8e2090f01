"""Vectors wider than a register around buffers that exist in each lane: every combination is emitted, and right."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.processors import NATIVE
from tests.selection import some
from tests.targets.machines import Target
from tests.targets.programs import Call, Program, printed
from tiramisu_py.backends import emit
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

(N,) = tm.params("N")
i, x1, x2, x3 = tm.iters("i x1 x2 x3")
HERE = Target("gcc", ("gcc",), ("-O0", NATIVE), 64)


@dataclass(frozen=True)
class Case:
    """How the loop around the buffer is repeated, where the buffer is, and the vectors outside of it."""

    repeated: str
    kept: str
    memory: Any
    remainder: str
    dtype: tm.DType
    lanes: int

    def __str__(self) -> str:
        memory = str(self.memory).lower().split(".")[-1]
        return f"{self.repeated}-{self.kept}-{memory}-{self.remainder}-{self.dtype}x{self.lanes}"

    def function(self, number: int = 0) -> tm.Function:
        """A product of each element, with a buffer in the scope of the inner loop."""
        f = tm.Function(f"f{number}", params=[N], assume="N >= 1")
        a = f.input("a", self.dtype, [N])
        p = f.computation("p", {i: N}, a[i] + 1)
        q = f.computation("q", {i: N}, p[i] * 2 + p[i] * p[i])
        f.outputs(q)
        p.inline() if self.kept == "cache" else None
        if self.repeated == "jam":
            q.unroll_and_jam(i, 2, x1, x2)
        else:
            q.split(i, 2, x1, x2)
        if self.repeated == "unroll":
            q.unroll(x2)
        q.vectorize(x1, self.lanes, remainder=self.remainder)
        if self.kept == "cache":
            q.copy(a, [x3], at=x2, into=self.memory, name="near")
        else:
            p.compute_at(q, x2).store_at(q, x2)
        return f


ALL = [
    Case(*values)
    for values in itertools.product(
        ("jam", "unroll", "loop"),
        ("cache", "compute_at"),
        (tm.REGISTER, tm.HOST),
        ("mask", "scalar", "overlap"),
        (tm.float64, tm.int16),
        (16,),
    )
    if values[1] == "cache" or values[2] is tm.HOST
]


@pytest.mark.parametrize(
    ("register", "part"), some(itertools.product((64, 16), (0, 1)), lambda each: each in ((64, 0), (16, 1)))
)
def test_every_combination_is_emitted(register: int, part: int) -> None:
    """In a selection one half for large registers, and the others for small ones."""
    for number, case in enumerate(ALL):
        if number // 2 % 2 == part:
            assert emit(optimise(lower(case.function().program), register)), case


def test_one_of_each_kind_is_right(tmp_path: Path) -> None:
    some = [case for case in ALL if case.dtype is tm.float64 and case.repeated != "loop"]
    functions = [case.function() for case in some]
    program = Program(HERE, printed([optimise(lower(f.program), HERE.register) for f in functions]), tmp_path)
    rng = np.random.default_rng(0)
    given = {n: rng.integers(-9, 9, n).astype(np.float64) for n in (1, 31, 32, 33, 40, 70)}
    for k, case in enumerate(some):
        sizes = [n for n in given if case.remainder != "overlap" or n >= 32]
        calls = [Call(k, {"N": n}, {"a": given[n], "q": np.zeros(n)}) for n in sizes]
        for n, found in zip(sizes, program(calls), strict=True):
            a = given[n] + 1
            np.testing.assert_array_equal(found["q"], a * 2 + a * a, err_msg=f"{case} of {n}")


def test_rows_jammed_around_a_buffer_in_registers_are_emitted() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int64, [N + 4])
    q = f.computation("q", {i: N}, a[i] * 2 + a[i])
    f.outputs(q)
    q.unroll_and_jam(i, 2, x1, x2)
    q.vectorize(x1, 16, remainder="mask")
    q.copy(a, [x3], at=x2, into=tm.REGISTER, name="near")
    assert f.check().ok
    given = np.arange(44, dtype=np.int64)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(given))
