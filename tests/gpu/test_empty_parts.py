"""A call whose GPU part is empty begins no GPU: it works on a machine without one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperative_blur import C, G, H, R, blur, c, c0, c1, picture, r, stages


def on_a_gpu_alone() -> tm.Function:
    """Nothing is left for the host, which waits for copies."""
    f = tm.Function("alone", params=[R, C])
    a = f.input("a", tm.float32, [R, C])
    o = f.computation("o", {r: R, c: C}, 2 * a[r, c])
    f.outputs(o)
    o.split(c, 32, c0, c1)
    o.tag_gpu(blocks=[r, c0], threads=[c1])
    f.derive_transfers()
    return f


def begun(f: tm.Function) -> str:
    """The condition under which the emitted function begins GPUs; empty where there is none."""
    text = f.source()[f"{f.name}.c"]
    assert text.count("tm_gpu_begin(") == 1
    found = re.search(r"\n  if \((.*)\) \{\n    const int tm_began = tm_gpu_begin\(", text)
    assert ("gpu == NULL ? 0" in text) == (found is not None)
    return found[1] if found else ""


def test_the_condition_is_that_there_is_anything_to_do_for_a_gpu():
    assert begun(blur((G, H))) == "H >= G + 1 || G >= 1"
    assert begun(stages()) == "C >= 1 && G >= 1"


def test_where_every_call_needs_a_gpu_nothing_is_asked():
    assert begun(on_a_gpu_alone()) == ""  # without a row or a column there is nothing to do anywhere
    assert begun(blur((3,))) == ""


@pytest.mark.skipif(without_cxx(), reason=CXX)
@pytest.mark.parametrize("options", [{}, {"trace": True}, {"page_lock": True}], ids=str)
def test_where_the_gpu_is_missing_a_call_computes_what_is_left_to_cores(options, monkeypatch):
    image, values = picture(), np.random.default_rng(2).random((6, 40), dtype=np.float32)
    f, staged = blur((G, H)), stages()
    monkeypatch.setenv("TM_SIMULATOR", "devices=1")
    kernel = f.compile(device="simulator:1", **options)
    found = kernel(image, G=0, H=0)
    np.testing.assert_array_equal(found, f.evaluate(image, G=0, H=0))
    with pytest.raises(tm.KernelError, match=r"GPU [12] is asked for, and there is 1"):
        kernel(image, G=1, H=1)
    np.testing.assert_array_equal(staged.compile(device="simulator:1", **options)(values, G=0), 2 * values + 1)


def test_a_machine_without_a_driver_computes_what_is_left_to_cores():
    if tm.gpu_count():
        pytest.skip("there is a GPU")
    f, image = blur((G,), devices=(0,)), picture()
    kernel = f.compile(device="gpu", architectures=("compute_80",))
    np.testing.assert_array_equal(kernel(image, G=0, H=9), f.evaluate(image, G=0, H=9))
    with pytest.raises(tm.KernelError, match="blur: no CUDA driver on this machine"):
        kernel(image, G=1, H=9)


def test_a_program_that_only_copies_needs_no_kernel() -> None:
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("copied", params=[N])
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, a[i] + 1)
    f.outputs(b)
    f.create_xfer({i: N}, a[i], tm.CPU2GPU).collapse_many(i)
    given = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(f.compile(device="simulator")(given), f.evaluate(a=given))
