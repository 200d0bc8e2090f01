"""Kernels and functions that are copied, and kernels that go to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j = tm.iters("i j")


def _function(name: str = "travelling") -> tm.Function:
    f = tm.Function(name, params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    k = f.input("k", tm.int32, [N], values=(0, M))
    s = f.scalar("s", tm.float64)
    p = f.reduction("p", {i: N}, {j: M}, tm.max, a[i, j] * tm.cast(tm.float32, s) + a[i, k[i]])
    f.outputs(p)
    return f


def _arguments() -> tuple[Any, ...]:
    values = np.random.default_rng(0)
    return values.random((5, 4), dtype=np.float32), values.integers(0, 4, 5).astype(np.int32), 0.5


def _sent(kernel: tm.Kernel) -> tm.Kernel:
    received = pickle.loads(pickle.dumps(kernel))
    assert isinstance(received, tm.Kernel)
    return received


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _sent])
def test_a_copy_of_a_kernel_computes_the_same(copied: Any) -> None:
    f = _function()
    kernel = f.compile(threads=1)
    other = copied(kernel)
    assert other is not kernel and repr(other) == repr(kernel) and other.source == kernel.source
    np.testing.assert_array_equal(other(*_arguments()), f.evaluate(*_arguments()))


@pytest.mark.parametrize("copied", [copy.deepcopy, _sent])
def test_a_copy_of_a_kernel_checks_its_calls_the_same(copied: Any) -> None:
    a, k, s = _arguments()
    other = copied(_function().compile())
    with pytest.raises(tm.ArgumentError, match="k"):
        other(a, k + 4, s)
    with pytest.raises(tm.ArgumentError, match="a"):
        other(a.astype(np.float64), k, s)


def test_a_kernel_runs_in_a_process_that_was_started_anew() -> None:
    f = _function()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(f.compile(), _arguments())
    np.testing.assert_array_equal(found, f.evaluate(*_arguments()))


def test_copies_of_a_traced_kernel_have_traces_of_their_own() -> None:
    f = _function("travelling_traced")
    kernel = f.compile(trace=True)
    kernel(*_arguments())
    other = _sent(kernel)
    with pytest.raises(tm.ArgumentError):
        _ = other.trace
    other(*_arguments())
    assert len(other.trace.events) == len(kernel.trace.events)


def test_a_kernel_for_another_processor_travels_and_is_still_only_exported() -> None:
    f = _function("travelling_far")
    kernel = f.compile(target="x86-64-v2")
    assert _sent(kernel).source == kernel.source


def test_a_kernel_on_gpus_says_why_it_stays() -> None:
    f = tm.Function("staying", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    f.outputs(p)
    b, t = tm.iters("b t")
    p.split(i, 32, b, t)
    p.tag_gpu([b], [t])
    f.derive_transfers()
    kernel = f.compile(device="simulator")
    with pytest.raises(tm.KernelError, match="compile staying in the process that calls it"):
        pickle.dumps(kernel)
    values = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(copy.deepcopy(kernel)(values), values + 1)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_a_function_is_scheduled_apart(copied: Any) -> None:
    f = _function()
    other = copied(f)
    other["p"].update.split(j, 2, *tm.iters("x y"))
    assert f.commands == () and len(other.commands) == 1


def test_handles_that_are_copied_with_their_function_belong_to_the_copy() -> None:
    f = _function()
    other, handle = copy.deepcopy((f, f["p"]))
    handle.init.parallelize(i)
    assert f.commands == () and len(other.commands) == 1


def test_a_function_that_is_pickled_says_what_to_pickle_instead() -> None:
    with pytest.raises(tm.DeclarationError, match=r"pickle the kernel, travelling\.compile\(\)"):
        pickle.dumps(_function())
