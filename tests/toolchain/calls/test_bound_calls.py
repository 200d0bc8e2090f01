"""Bound calls: checked once, run often, on the arrays as they are then."""

from __future__ import annotations

import copy
import gc
import os
import pickle
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm import types as ty
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.toolchain.calls.arguments import Arguments

(N,) = tm.params("N")
(i,) = tm.iters("i")


def scaled(name: str = "scaled", **facts: Any) -> tm.Function:
    """``z[i] = s * x[k[i]]``."""
    f = tm.Function(name, params=[N], assume="N >= 0")
    x, k, s = f.input("x", tm.float32, [N]), f.input("k", tm.int32, [N], **facts), f.scalar("s", tm.float32)
    f.outputs(f.computation("z", {i: N}, s * x[tm.clip(k[i], 0, N - 1)]))
    return f


def arrays(size: int) -> tuple[Any, Any]:
    return np.arange(size, dtype=np.float32), np.arange(size, dtype=np.int32)[::-1].copy()


@pytest.mark.parametrize("size", [0, 1, 7, 64])
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_each_call_reads_what_the_arrays_hold_then(size: int, threads: int | None, monkeypatch: Any) -> None:
    f, (x, k), z = scaled(), arrays(size), np.zeros(size, np.float32)
    f["z"].parallelize(i)
    step = f.compile(threads=threads).bound(x, k, 2.0, z=z)
    monkeypatch.setattr(Arguments, "bind", None)
    for shift in range(3):
        x += shift
        assert step() is z
        np.testing.assert_array_equal(z, 2 * x[k])


def test_results_that_are_not_passed_are_made_once() -> None:
    x, k = arrays(9)
    step = scaled().compile().bound(x, k, s=0.5)
    first = step()
    right = x[k] / 2
    np.testing.assert_array_equal(first, right)
    x[:] = 1
    assert step() is first and not np.array_equal(first, right)


def test_the_arrays_live_as_long_as_the_call() -> None:
    x, k = arrays(5000)
    step, right = scaled().compile().bound(x, k, 3.0), 3 * x[k]
    del x, k
    gc.collect()
    np.full(5000, 77, np.float32), np.full(5000, 77, np.int32)
    np.testing.assert_array_equal(step(), right)


def test_arguments_are_refused_as_in_any_call() -> None:
    x, k = arrays(4)
    kernel = scaled().compile()
    for inputs, named, says in [
        ((x, k), {}, "s is missing"),
        ((x, k.astype(np.int64), 1.0), {}, "k has dtype int64"),
        ((x, k, 1.0), {"z": x}, "shares memory"),
        ((x, k, 1.0), {"y": x}, "no argument y"),
    ]:
        with pytest.raises(tm.ArgumentError, match=says):
            kernel.bound(*inputs, **named)


@pytest.mark.parametrize("passed", [True, False])
def test_an_output_that_was_made_read_only_is_not_written(passed: bool) -> None:
    x, k = arrays(4)
    step = scaled().compile().bound(x, k, 1.0, z=np.zeros(4, np.float32) if passed else None)
    z = step()
    x += 1
    z.flags.writeable = False
    with pytest.raises(tm.ArgumentError, match="z is written, and was made read-only after it was bound"):
        step()
    np.testing.assert_array_equal(z, x[k] - 1)
    z.flags.writeable = True
    x.flags.writeable = False  # it is only read
    np.testing.assert_array_equal(step(), x[k])


def test_a_bound_call_takes_no_arguments() -> None:
    x, k = arrays(4)
    step = scaled().compile().bound(x, k, 1.0)
    for wrong in (lambda: step(x), lambda: step(s=2.0)):
        with pytest.raises(tm.ArgumentError, match="has its arguments: change what the arrays hold"):
            wrong()


def test_facts_are_verified_in_every_call() -> None:
    x, k = arrays(4)
    step = scaled(values=(0, N)).compile().bound(x, k, 1.0)
    np.testing.assert_array_equal(step(), x[k])
    k[2] = 4
    with pytest.raises(tm.ArgumentError, match=r"k\[2\] = 4"):
        step()
    k[2] = 0
    np.testing.assert_array_equal(step(), x[k])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_bound_call_is_not_sent_anywhere(copied: Any) -> None:
    step = scaled().compile().bound(*arrays(3), 1.0)
    with pytest.raises(tm.ArgumentError, match="bind the arguments again"):
        copied(step)


def test_a_failure_is_raised_in_every_call_and_only_where_there_is_one(make: Any) -> None:
    x = ArrayArgument("x", ty.float64, (), is_input=True, is_output=False)
    z = ArrayArgument("z", ty.float64, (), is_input=False, is_output=True)
    given = np.array(1.0)
    step = make("if (*x > 2) return 5; *z = *x + 0 * N;", x, z).compile().bound(given, N=4)
    assert step() == 1
    given[...] = 3
    for _ in range(2):
        with pytest.raises(tm.KernelError, match="failed with code 5"):
            step()
    given[...] = 2
    assert step() == 2


def test_a_traced_call_leaves_its_trace() -> None:
    x, k = arrays(4)
    kernel = scaled().compile(trace=True)
    step = kernel.bound(x, k, 1.0)
    with pytest.raises(tm.ArgumentError, match="has not been called"):
        _ = kernel.trace
    step()
    assert kernel.trace.events is not None


def test_a_forked_process_may_run_a_parallel_bound_call() -> None:
    f, (x, k) = scaled(), arrays(10000)
    f["z"].parallelize(i)
    step, right = f.compile(threads=2).bound(x, k, 2.0), 2 * x[k]
    np.testing.assert_array_equal(step(), right)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(step(), right) for _ in range(3)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
