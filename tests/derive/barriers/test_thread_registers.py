"""Registers of threads: what a thread stores in one loop it reads in another one, and no other thread does."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu import tensor_products as tp
from tests.programs.gpu import thread_registers as registers
from tests.selection import covering, some
from tiramisu_py.derive.barriers import thread_registers
from tiramisu_py.ir import Allocate, Mma
from tiramisu_py.ir.rewriting import walk

DEALS = [f"{which} {by}" for which in ("inner", "outer") for by in (2, 3, 4, 6, 12)]


@pytest.mark.parametrize(("stored", "read"), covering(DEALS, DEALS))
def test_a_value_is_in_the_registers_of_the_thread_that_stores_it(stored: registers.Deal, read: registers.Deal) -> None:
    threads = [(registers.thread_of(stored, e), registers.thread_of(read, e)) for e in range(registers.BLOCK)]
    other = next(((e, *pair) for e, pair in enumerate(threads) if len(set(pair)) > 1), None)
    f = registers.dealt(stored, read)
    report = f.check()
    if other is None:
        assert report.ok, report
        a = np.arange(30, dtype=np.float32)
        np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a), 2 * a + 1)
        return
    element, having, reading = other
    (violation,) = report.violations
    assert violation.kind == "reach" and violation.witness.params == {"N": element + 1}
    assert violation.message.startswith(
        f"z[{element}] reads y[{element}] in thread ({reading}, 0, 0) of a block, and thread ({having}, 0, 0) has it "
        "in its registers"
    )
    assert "y.store_in(tm.SHARED)" in violation.repair
    assert registers.dealt(stored, read, tm.SHARED).check().ok


def _is_register(node: object) -> bool:
    return isinstance(node, Allocate) and node.register


@pytest.mark.parametrize("tensorized", some([True, False], bool))
def test_sums_stay_in_registers_between_the_loops_of_a_product(tensorized: bool) -> None:
    f = registers.product(tensorized=tensorized)
    report = f.check()
    assert report.ok and ("tensor cores" in str(report)) == tensorized, report
    (kernel,) = f.show("lowered").gpus.kernels
    assert any(isinstance(node, Mma) for node in walk(kernel.body)) == tensorized
    sizes = {node.buffer: [int(str(e)) for e in node.extents] for node in walk(kernel.body) if _is_register(node)}
    assert sizes == {"total": [2, 2, 2]}  # of 32 x 16 sums, those of one of 64 threads
    simulated = f.compile(device="simulator", sanitize=True)
    for size in ((32, 16, 32), (33, 17, 19), (1, 1, 1)):
        a, b = tp.numbers("float16", *size)
        for each in (simulated, simulated.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(a, b), tp.exact(a, b), strict=True)


def test_a_layout_that_joins_elements_of_a_thread_is_missed_by_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = thread_registers._Registers._axes
    fewer = lambda self, *given: iter(list(axes(self, *given))[1:])  # noqa: E731
    monkeypatch.setattr(thread_registers._Registers, "_axes", fewer)
    assert registers.dealt("inner 3", "inner 3").check().ok  # not one-to-one: each thread has room for all elements
    monkeypatch.setattr(thread_registers._Registers, "_is_one_to_one", lambda *_: True)
    (violation,) = registers.dealt("inner 3", "inner 3").check().violations
    assert violation.kind == "overwritten" and "y[0]" in violation.message


def test_threads_that_store_no_value_leave_their_registers_alone() -> None:
    f = registers.dealt("inner 4", "inner 4", more_threads=True)
    assert f.check().ok
    assert "if thread_y == 0:\n            for t in 3 * b" in f.show("pseudocode")  # the start of what stores to y
    a = np.arange(25, dtype=np.float32)
    for got, expected in zip(f.compile(device="simulator", sanitize=True)(a), (2 * a + 1, 3 * a), strict=True):
        np.testing.assert_array_equal(got, expected)
