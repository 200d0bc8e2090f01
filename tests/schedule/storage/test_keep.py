"""keep: operands that are packed once, by a function of their own, and passed to many calls."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.sanitizers import check_clean
from tiramisu_py.interpret import run

N, M, K = tm.params("N M K")
i, j, k, kk, jj, jo, jv, i0, i1, j0, j1 = tm.iters("i j k kk jj jo jv i0 i1 j0 j1")


def product(**assumed: str) -> SimpleNamespace:
    """C = A B, where B is packed in panels of four columns and kept."""
    f = tm.Function("mm", params=[N, M, K], **assumed)
    A, B = f.input("A", tm.int32, [N, K]), f.input("B", tm.int32, [K, M])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, A[i, k] * B[k, j])
    f.outputs(C)
    panels = C.update.copy(B, [kk, jj], layout=[jj // 4, kk, jj % 4])
    panels.keep()
    return SimpleNamespace(f=f, A=A, B=B, C=C, panels=panels)


def padded(**assumed: str) -> SimpleNamespace:
    """C = A B, where groups of four terms of B lie together, with zeros after the last; their sums are kept too."""
    f = tm.Function("quads", params=[N, M, K], **assumed)
    A, B = f.input("A", tm.int32, [N, K]), f.input("B", tm.int8, [K, M])
    quads = f.computation("quads_of_B", {k: (K + 3) // 4 * 4, j: M}, tm.select(k < K, B[k, j], np.int8(0)))
    sums = f.reduction("sums", {j: M}, {k: K}, tm.sum, tm.cast(tm.int32, B[k, j]))
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, A[i, k] * tm.cast(tm.int32, quads[k, j]))
    D = f.computation("D", {i: N, j: M}, C[i, j] - sums[j])
    f.outputs(D)
    quads.store_in(tm.Buffer("B_quads", [(K + 3) // 4, M, 4], tm.int8), [k // 4, j, k % 4])
    quads.keep()
    sums.keep()
    return SimpleNamespace(f=f, B=B, quads=quads, sums=sums)


def numbers(*shape: int, dtype: Any = np.int32) -> Any:
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(dtype)


SIZES = [(0, 0, 0), (1, 1, 1), (3, 0, 2), (2, 5, 0), (5, 4, 3), (4, 13, 7), (2, 31, 8)]


@pytest.mark.parametrize(("n", "m", "terms"), SIZES)
def test_a_packed_operand_serves_calls_of_any_other_size(n: int, m: int, terms: int) -> None:
    kernel, b = product().f.compile(), numbers(terms, m)
    packed = kernel.pack("B", b, **({"M": m} if terms == 0 else {}))
    assert packed.sizes == {"M": m, "K": terms}
    assert packed.nbytes == (m + 3) // 4 * terms * 4 * 4
    for rows in (n, n + 3):
        a = numbers(rows, terms)
        np.testing.assert_array_equal(kernel(a, packed), a @ b)
        np.testing.assert_array_equal(kernel(A=a, B=packed), a @ b)


def test_a_bound_call_takes_what_is_packed_already() -> None:
    kernel, a, b = product().f.compile(), numbers(3, 4), numbers(4, 5)
    with pytest.raises(tm.ArgumentError, match=r'a bound call packs nothing: pass kernel\.pack\("B", B\)'):
        kernel.bound(a, b)
    step = kernel.bound(a, kernel.pack("B", b))
    for _ in range(2):
        np.testing.assert_array_equal(step(), a @ b)
        a += 1


@pytest.mark.parametrize(("n", "m", "terms"), SIZES)
def test_computations_of_one_input_are_packed_together(n: int, m: int, terms: int) -> None:
    s = padded()
    assert s.f.check().ok, s.f.check()
    kernel = s.f.compile()
    a, b = numbers(n, terms), numbers(terms, m, dtype=np.int8)
    packed = kernel.pack("B", b)
    assert set(packed.arrays) == {"B_quads", "sums"}
    quads = np.zeros(((terms + 3) // 4 * 4, m), np.int8)
    quads[:terms] = b
    np.testing.assert_array_equal(packed.arrays["B_quads"], quads.reshape((terms + 3) // 4, 4, m).transpose(0, 2, 1))
    np.testing.assert_array_equal(packed.arrays["sums"], b.sum(axis=0, dtype=np.int32))
    wanted = s.f.evaluate(a, b)
    np.testing.assert_array_equal(wanted, a @ b - b.sum(axis=0, dtype=np.int32))
    np.testing.assert_array_equal(kernel(a, packed), wanted)
    np.testing.assert_array_equal(kernel(a, b), wanted)


def test_a_plain_array_is_packed_in_the_call() -> None:
    kernel, a, b = product().f.compile(), numbers(5, 3), numbers(3, 7)
    np.testing.assert_array_equal(kernel(a, b), a @ b)
    np.testing.assert_array_equal(kernel(B=b, A=a), a @ b)
    with pytest.raises(tm.ArgumentError, match="B has dtype int64"):
        kernel(a, b.astype(np.int64))


def test_the_packing_is_scheduled_like_any_copy() -> None:
    s = product()
    s.panels.split(jj, 4, jo, jv)
    s.panels.reorder(jo, kk, jv)
    s.panels.parallelize(jo)
    s.panels.vectorize(jv, 4, remainder="mask")
    s.C.parallelize(i)
    kernel, a, b = s.f.compile(), numbers(6, 11), numbers(11, 9)
    assert "#pragma omp" in kernel.source["mm_pack_B.c"]
    np.testing.assert_array_equal(kernel(a, kernel.pack("B", b)), a @ b)


def test_versions_for_constant_sizes_take_the_same_packed_array() -> None:
    s = product()
    s.f.specialize(K=8)
    kernel = s.f.compile()
    for terms in (7, 8):
        a, b = numbers(3, terms), numbers(terms, 6)
        np.testing.assert_array_equal(kernel(a, kernel.pack("B", b)), a @ b)


@pytest.mark.parametrize("seed", range(3))
def test_the_interpreter_packs_first(seed: int) -> None:
    a, b, c = numbers(3, 5), numbers(5, 6), np.zeros((3, 6), np.int32)
    run(product().f.show("lowered"), {"A": a, "B": b, "C": c}, {"N": 3, "M": 6, "K": 5}, seed)
    np.testing.assert_array_equal(c, a @ b)


# -- the preconditions of packing are those that some call has


def test_packing_needs_only_the_sizes_on_which_it_depends() -> None:
    kernel = product(assume="N >= M and M >= 2 and K >= 1").f.compile()
    packing = kernel.function.companions.packs[0]
    assert packing.params == ("M", "K")
    assert {words for _, words in packing.preconditions} == {"M >= 2", "K >= 1"}
    with pytest.raises(tm.ArgumentError, match="mm_pack_B needs M >= 2"):
        kernel.pack("B", numbers(3, 1))
    computed = padded(assume="N >= 1").f.compile()
    assert computed.function.companions.packs[0].params == ("M", "K")
    a, b = numbers(2, 5), numbers(5, 3, dtype=np.int8)
    np.testing.assert_array_equal(computed(a, computed.pack("B", b)), a @ b - b.sum(axis=0, dtype=np.int32))


# -- what does not fit


def test_only_what_was_packed_for_the_kernel_and_its_sizes_is_taken() -> None:
    kernel, a, b = product().f.compile(), numbers(5, 3), numbers(3, 7)
    other = product()
    other.panels.interchange(kk, jj)
    packed = kernel.pack("B", b)
    with pytest.raises(tm.ArgumentError, match=r"B was packed by another kernel \(mm\)"):
        kernel(a, other.f.compile().pack("B", b))
    with pytest.raises(tm.ArgumentError, match="K, is 3, not 4") as refused:
        kernel(numbers(5, 4), packed)
    assert "B was packed for M = 7, K = 3" in refused.value.__notes__
    with pytest.raises(tm.ArgumentError, match="B was packed for M = 7, but the call has M = 8"):
        kernel(a, packed, M=8)
    with pytest.raises(tm.ArgumentError, match=r"A has dtype|A is of type PackedArray"):
        kernel(packed, packed)
    with pytest.raises(tm.ArgumentError, match="mm has no argument B_packed"):
        kernel(a, B_packed=packed.arrays["B_packed"])
    with pytest.raises(tm.ArgumentError, match="mm does not take 'A' packed: it keeps operands of B"):
        kernel.pack("A", a)
    with pytest.raises(tm.ArgumentError, match="it keeps no operands between calls"):
        s = product()
        s.f.undo()
        s.f.compile().pack("B", b)


def test_declared_facts_are_verified_when_an_array_is_packed() -> None:
    f = tm.Function("looked_up", params=[N, M])
    rows = f.input("rows", tm.int32, [N], values=(0, M))
    table = f.input("table", tm.int32, [M])
    out = f.computation("out", {i: N}, table[rows[i]])
    f.outputs(out)
    out.copy(rows, [jj], layout=[jj]).keep()
    kernel, values = f.compile(), numbers(5)
    packed = kernel.pack("rows", np.array([4, 0, 2], np.int32), M=5)
    np.testing.assert_array_equal(kernel(packed, values), values[[4, 0, 2]])
    with pytest.raises(tm.ArgumentError, match="rows"):
        kernel.pack("rows", np.array([4, 0, 5], np.int32), M=5)
    with pytest.raises(tm.ArgumentError, match="M = 5"):
        kernel(packed, values[:3].copy())
    with pytest.raises(tm.ArgumentError, match="packed by another kernel"):
        kernel(f.compile(verify_values=False).pack("rows", np.array([9], np.int32), M=5), values)


# -- where it goes


def test_kernels_and_packed_arrays_travel() -> None:
    kernel, a, b = product().f.compile(), numbers(5, 3), numbers(3, 7)
    packed = pickle.loads(pickle.dumps(kernel.pack("B", b)))
    there = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(there(a, packed), a @ b)
    np.testing.assert_array_equal(there(a, there.pack("B", b)), a @ b)
    assert repr(packed) == "<PackedArray B for mm, M=7, K=3: 96 bytes>"


def test_a_file_keeps_it(tmp_path) -> None:
    s = product()
    s.f.save(tmp_path / "mm.json")
    loaded = tm.load(tmp_path / "mm.json")
    assert loaded.commands == s.f.commands
    assert [pack.name for pack in loaded.show("lowered").companions.packs] == ["mm_pack_B"]


C_PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include "mm.h"

int check(const int32_t *a, const int32_t *b, int32_t *c) {
  const int64_t bytes = mm_B_packed_bytes(7, 3);
  if (bytes != 96 || mm_B_packed_bytes(-1, 3) != -1 || mm_B_packed_bytes(INT64_C(1) << 40, INT64_C(1) << 40) != -1)
    return 1;
  int32_t *const packed = malloc(bytes);
  memset(packed, 0x5a, bytes);
  if (mm_pack_B(7, 3, b, packed)) return 2;
  if (mm(5, 7, 3, a, packed, c)) return 3;
  if (!mm_pack_B(7, 3, NULL, packed) || !strstr(mm_pack_B_last_error(), "B is NULL")) return 4;
  free(packed);
  return 0;
}
"""


def test_a_c_program_packs_once(tmp_path) -> None:
    """Whatever is in the padding."""
    kernel = product().f.compile()
    kernel.export(tmp_path)
    assert "mm_pack_B" in (tmp_path / "README.md").read_text()
    header = (tmp_path / "mm_pack_B.h").read_text()
    assert "B_packed[(M + 3) // 4][K][4] of int32: B_packed[jj // 4, kk, jj % 4] is B[kk, jj]." in header
    (tmp_path / "check.c").write_text(C_PROGRAM)
    # The archive: another test may have loaded another library of the same name.
    command = ["cc", "-shared", "-fPIC", "-fopenmp", "-I.", "check.c", "-o", "check.so", "libmm.a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    a, b, c = numbers(5, 3), numbers(3, 7), np.zeros((5, 7), np.int32)
    assert ctypes.CDLL(str(tmp_path / "check.so")).check(*(x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c))) == 0
    np.testing.assert_array_equal(c, a @ b)


def test_packing_stays_within_its_arrays() -> None:
    check_clean("tests.schedule.storage.keep_under_sanitizers")


# -- what cannot be kept


def test_what_is_not_made_once_from_one_input_is_refused_at_once() -> None:
    s = product()
    with pytest.raises(tm.CommandError, match="B_packed is kept between calls already"):
        s.panels.keep()
    with pytest.raises(tm.CommandError, match=r"A_cache is made anew in each iteration of \(i\)"):
        s.C.update.copy(s.A, [kk, jj], at=i).keep()
    with pytest.raises(tm.CommandError, match="C is in the caller's array C already"):
        s.C.keep()
    f = tm.Function("two", params=[N])
    a, b, c = f.input("a", tm.int32, [N]), f.input("b", tm.int32, [N]), f.scalar("c", tm.int32)
    both = f.computation("both", {i: N}, a[i] + b[i])
    scaled = f.computation("scaled", {i: N}, a[i] * c)
    f.outputs(f.computation("out", {i: N}, both[i] + scaled[i]))
    with pytest.raises(tm.CommandError, match="both is made from a, b: only what is made from one array"):
        both.keep()
    with pytest.raises(tm.CommandError, match="scaled is made from a, c"):
        scaled.keep()
