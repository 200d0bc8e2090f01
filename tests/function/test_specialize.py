"""specialize: versions for constant sizes, chosen by each call, with the results of the general one."""

from __future__ import annotations

import ctypes
import re
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tests.processors import NATIVE, native
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, c0, c1, i, j, j0, j1, k, r, r0, r1
from tests.schedule.storage.test_stores import jammed
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise


def multiplied() -> SimpleNamespace:
    """A matrix product with versions for small ones."""
    s = pl.matmul()
    s.C.update.reorder(i, k, j).vectorize(j, 8)
    s.C.init.vectorize(j, 8)
    s.f.specialize(K=4, M=16)
    s.f.specialize(N=2, M=16, K=4)
    s.f.specialize(M=0)
    return s


def test_each_version_computes_the_same():
    s = multiplied()
    kernel = s.f.compile()
    rng = np.random.default_rng(0)
    for n, m, k_ in ((3, 16, 4), (2, 16, 4), (2, 0, 4), (5, 16, 3), (2, 17, 4), (0, 16, 4)):
        a, b = rng.random((n, k_), dtype=np.float32), rng.random((k_, m), dtype=np.float32)
        np.testing.assert_array_equal(kernel(a, b), s.f.evaluate(a, b))


def _chosen(source: dict[str, str], folder, sizes: tuple[int, ...]) -> int:
    """The number of the version that a call runs: 0 for the general one."""
    names = iter(range(1, 9))
    text = re.sub(r"return mm_\w+\(N, ", lambda _: f"return {next(names)} + 0*mm_check(N, ", source["mm.c"])
    text = re.sub(r"0\*mm_check\([^;]*;", "0;", text)
    for name, content in {**source, "mm.c": text}.items():
        (folder / name).write_text(content)
    flags = native(["-std=gnu11", "-fwrapv", "-O0", NATIVE, "-fopenmp", "-Wno-unused-function"], "gcc")
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", "mm.c", "-o", "mm.so", "-lm"], cwd=folder, check=True)
    n, m, k_ = sizes
    arrays = [np.zeros(max(size, 1), np.float32) for size in (n * k_, k_ * m, n * m)]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    return int(ctypes.CDLL(str(folder / "mm.so")).mm(*map(ctypes.c_int64, sizes), *pointers))


@pytest.mark.parametrize(
    ("sizes", "version"), [((2, 16, 4), 1), ((3, 16, 4), 2), ((3, 0, 4), 3), ((3, 16, 5), 0), ((2, 8, 4), 0)]
)
def test_a_call_runs_the_version_with_most_of_its_sizes(sizes, version, tmp_path):
    assert _chosen(multiplied().f.source(), tmp_path, sizes) == version


def test_sizes_are_constants_in_the_loops_and_nothing_is_left_over():
    s = jammed(None)
    s.f.specialize(R=16, C=32)
    source = s.f.source()["blur.c"]
    start = source.index("static int blur_R16_C32(")
    version = source[start : source.index("\nint blur(", start)]
    assert "for (int64_t r0 = 0; r0 < 2; r0++)" in version
    code = [line for line in version.splitlines()[3:] if not line.lstrip().startswith("//")]
    assert not re.search(r"\b[RC]\b|c_end|/16\*16", "\n".join(code))
    assert version.count("for (") == 1 and "&image[8*r0*34 + 1]" in version
    assert "if (R == 16 && C == 32)\n    return blur_R16_C32(R, C, image, by);" in source


def test_the_general_version_is_what_it_was():
    plain, s = jammed(None).f.source()["blur.c"], jammed(None)
    s.f.specialize(C=32)
    with_version = s.f.source()["blur.c"]
    body = "  #pragma omp parallel for schedule(static)\n  for (int64_t r0 = 0; r0 < (R + 7)/8; r0++) {"
    assert plain[plain.index(body) :] == with_version[with_version.rindex(body) :]
    s.f.undo()
    assert s.f.source()["blur.c"] == plain


def test_versions_store_past_the_caches_too():
    s = jammed(0)
    s.f.specialize(C=32)
    s.f.specialize(C=33)
    source = s.f.source()
    assert {"blur_body.h", "blur_C32_body.h", "blur_C33_body.h"} <= set(source)
    assert "return blur_C32_streaming(R, C, image, by);" in source["blur.c"]
    kernel = s.f.compile(threads=2)
    for C in (32, 33, 48):
        image = np.random.default_rng(C).random((19, C + 2), dtype=np.float32)
        np.testing.assert_array_equal(kernel(image), s.f.evaluate(image))


def test_no_sanitizer_has_anything_to_say():
    s = multiplied()
    compiled = Compiled(lower(s.f.completed), "-O0", *SANITISERS)
    a, b = np.ones((2, 4), np.float32), np.ones((4, 16), np.float32)
    found = compiled.sanitised({"N": 2, "M": 16, "K": 4}, A=a, B=b, C=np.zeros((2, 16), np.float32))
    np.testing.assert_array_equal(found["C"], a @ b)


@pytest.mark.parametrize("sizes", [(2, 16, 4), (3, 16, 4), (3, 0, 4), (3, 16, 5)])
def test_the_machine_runs_the_version_too(sizes):
    n, m, k_ = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (n, k_)).astype(np.float32), rng.integers(0, 9, (k_, m)).astype(np.float32)
    found = np.zeros((n, m), np.float32)
    s = multiplied()
    run(optimise(lower(s.f.completed)), {"A": a, "B": b, "C": found}, {"N": n, "M": m, "K": k_})
    np.testing.assert_array_equal(found, a @ b)


def test_it_exports_and_is_traced(tmp_path):
    s = multiplied()
    folder = s.f.compile(trace=True).export(tmp_path / "mm")
    subprocess.run(["make", "clean", "all"], cwd=folder, check=True, capture_output=True)
    assert "mm_N2_M16_K4" in (folder / "mm.c").read_text()


def test_names_of_versions_are_not_those_of_the_user():
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N])
    a = f.input("f_N8", tm.float32, [N])
    o = f.computation("o", {i: N}, a[i] + N)
    f.outputs(o)
    f.specialize(N=8)
    given = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(given), given + 8)


def test_it_is_a_command_like_others():
    s = pl.scale()
    s.f.specialize(N=4, M=8)
    assert texts(s.f) == ("scale.specialize(N=4, M=8)",)
    assert "where N is 4 and M is 8:\n    for i in 0 .. 4:" in s.f.show("pseudocode")
    other = s.f.copy()
    other.undo()
    assert "where" not in other.show("pseudocode") and s.f.check().ok


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, r"scale\.specialize\(N=64\)"),
        ({"X": 3}, "scale has no parameter X; it has N, M"),
        ({"N": -1}, "N is -1"),
        ({"N": 2.0}, "N is 2.0"),
        ({"N": True}, "N is True"),
        ({"N": 7}, "a version for N=7 already"),
    ],
)
def test_what_makes_no_sense_is_refused(sizes, words):
    s = pl.scale()
    s.f.specialize(N=7)
    with pytest.raises(tm.CommandError, match=words):
        s.f.specialize(**sizes)


def test_a_window_stays_in_registers_where_its_loop_is_short():
    """Its loop is not unrolled: the places in a window do not depend on it."""
    R, C = tm.params("R C")
    f = tm.Function("blur", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C + 2])
    down = f.computation("down", {r: R, c: C + 2}, image[r, c] + image[r + 1, c] + image[r + 2, c])
    across = f.computation("across", {r: R, c: C}, down[r, c] + down[r, c + 1] + down[r, c + 2])
    f.outputs(across)
    across.tile(r, c, 8, 16, r0, c0, r1, c1).vectorize(c1, 16, remainder="mask")
    down.compute_at(across, c0).slide(c0, c, 16).vectorize(c, 16, remainder="mask").store_in(tm.REGISTER)
    f.specialize(C=64)
    body = f.source()["blur.c"].split("static int blur_C64(")[1].split("\n}\n")[0]
    assert "down_7_1" in body and "for (int64_t c0" in body
    kernel = f.compile()
    for rows, columns in ((1, 64), (21, 64), (21, 63)):
        given = np.random.default_rng(0).random((rows + 2, columns + 2), dtype=np.float32)
        np.testing.assert_array_equal(kernel(given), f.evaluate(given))


def test_sizes_that_are_excluded_or_too_many_are_refused():
    s = pl.heat()
    with pytest.raises(tm.CommandError, match="N=0 contradicts what heat assumes"):
        s.f.specialize(N=0)
    for n in range(1, 17):
        s.f.specialize(N=n)
    with pytest.raises(tm.CommandError, match="16 versions already"):
        s.f.specialize(N=17)


def test_a_function_of_a_gpu_has_none():
    s = pl.scale()
    s.o.split(j, 8, j0, j1).tag_gpu([i, j0], [j1])
    s.f.derive_transfers()
    s.f.specialize(N=4)
    with pytest.raises(tm.LegalityError, match="scale uses GPUs"):
        s.f.source()


# -- scalars


def scaled(dtype: tm.DType = tm.float32) -> tm.Function:
    """``c = alpha * a``, and ``+ beta * b`` unless beta is 0."""
    (n,) = tm.params("N")
    f = tm.Function("scaled", params=[n])
    a, b = f.input("a", dtype, [n]), f.input("b", dtype, [n])
    alpha, beta = f.scalar("alpha", dtype), f.scalar("beta", dtype)
    out = f.computation("c", {i: n}, tm.select(beta == 0, alpha * a[i], alpha * a[i] + beta * b[i]))
    f.outputs(out)
    out.vectorize(i, 8)
    return f


@pytest.mark.parametrize("dtype", [tm.float32, tm.float64, tm.float16, tm.int16], ids=str)
def test_a_version_for_a_scalar_has_the_same_bits(dtype):
    f = scaled(dtype)
    for constants in (
        {"beta": 0},
        {"alpha": 1, "beta": 0},
        {"beta": -1},
        {"alpha": 3, "N": 5},
        {"beta": 0.1 if dtype.is_float else 7},
    ):
        f.specialize(**constants)
    assert f.check().ok
    kernel, rng = f.compile(), np.random.default_rng(0)
    assert kernel.source["scaled.c"].count("return scaled_") >= 4
    for n in (0, 5, 17):
        a, b = (rng.integers(-5, 6, n).astype(dtype.numpy) for _ in range(2))
        for alpha in (1, 3, 0):
            for beta in (0, -0.0, -1, 2, 0.1) if dtype.is_float else (0, -1, 2):
                given = {"a": a, "b": b, "alpha": dtype.numpy.type(alpha), "beta": dtype.numpy.type(beta)}
                want = f.evaluate(**given)
                assert kernel(**given).tobytes() == want.tobytes()
                found = np.zeros(n, dtype.numpy)
                run(f.show("lowered"), {**given, "c": found}, {"N": n}, 1)
                assert found.tobytes() == want.tobytes()


def test_a_version_for_no_weight_reads_no_second_operand():
    f = scaled()
    f.specialize(beta=0)
    (version,) = f.show("lowered").companions.versions
    assert version.sizes == (("beta", 0.0),)
    source = f.compile().source["scaled.c"]
    assert "if (beta == 0.0f && !signbit(beta))" in source
    own = source[source.index("static int scaled_beta0_0(") :]
    assert "(void)b;" in own[: own.index("\n}")] and "&b[i]" not in own[: own.index("\n}")]


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        ({"gamma": 1}, "has no parameter and no scalar gamma; it has N, alpha, beta"),
        ({"beta": "0"}, "beta is a scalar of float32, and '0' is none"),
        ({"beta": float("nan")}, "beta is never equal to nan"),
        ({"beta": True}, "and True is none"),
    ],
)
def test_what_a_scalar_cannot_be_is_no_version(constants, says):
    with pytest.raises(tm.CommandError, match=says):
        scaled().specialize(**constants)


# -- conditions


def test_a_version_for_a_multiple_has_no_remainder():
    s = pl.matmul()
    (M,) = tm.params("M")
    s.C.update.reorder(i, k, j).vectorize(j, 8)
    s.C.init.vectorize(j, 8)
    s.f.specialize(M % 8 == 0)
    s.f.specialize(M % 16 == 3, K=2)
    source = s.f.source()["mm.c"]
    version = source[source.index("static int mm_M_mod_8_eq_0(") :].split("\n}\n")[0]
    assert version.count("for (int64_t j = 0; j < M/8*8; j += 8)") == 2 and "j++" not in version
    assert "if (M%8 == 0)\n    return mm_M_mod_8_eq_0(" in source
    kernel, rng = s.f.compile(), np.random.default_rng(0)
    for n, m, k_ in ((3, 16, 4), (2, 0, 4), (3, 8, 2), (5, 19, 2), (5, 3, 2), (1, 1, 1), (2, 17, 3)):
        a, b = rng.integers(0, 9, (n, k_)).astype(np.float32), rng.integers(0, 9, (k_, m)).astype(np.float32)
        np.testing.assert_array_equal(kernel(a, b), a @ b)
        found = np.zeros((n, m), np.float32)
        run(s.f.show("lowered"), {"A": a, "B": b, "C": found}, {"N": n, "M": m, "K": k_})
        np.testing.assert_array_equal(found, a @ b)


def test_a_version_where_no_tile_is_partial_has_no_tests():
    s = jammed(None)
    R, C = tm.params("R C")
    s.f.specialize((R % 8 == 0) & (C % 16 == 0) & (C >= 16))
    source = s.f.source()["blur.c"]
    version = source[source.index("static int blur_R_mod_8") :].split("\n}\n")[0]
    assert "tm_min" not in version and "mask" not in version
    kernel = s.f.compile()
    for rows, columns in ((8, 16), (16, 48), (8, 17), (9, 16), (1, 1), (0, 16), (13, 31)):
        image = np.random.default_rng(rows).random((rows + 2, columns + 2), dtype=np.float32)
        np.testing.assert_array_equal(kernel(image), s.f.evaluate(image))


@pytest.mark.parametrize("dtype", [tm.float32, tm.float64, tm.float16, tm.int16], ids=str)
def test_choices_by_a_condition_are_made(dtype):
    (n,) = tm.params("N")
    f = tm.Function("scaled", params=[n])
    a, b = f.input("a", dtype, [n]), f.input("b", dtype, [n])
    beta, flag = f.scalar("beta", dtype), f.scalar("flag", tm.bool)
    out = f.computation("c", {i: n}, tm.select(beta == 0, a[i], tm.select(flag, a[i] + beta * b[i], b[i])))
    f.outputs(out)
    out.vectorize(i, 8)
    f.specialize(beta == 0)
    f.specialize(beta != 0, flag)
    f.specialize(beta != 0, ~flag & (n % 8 == 0))
    kernel = f.compile()
    source = kernel.source["scaled.c"]
    first = source[source.index("static int scaled_beta_eq_0(") :].split("\n}\n")[0]
    assert "(void)b;" in first and "(void)beta;" in first and "?" not in first
    second = source[source.index("static int scaled_beta_ne_0_flag(") :].split("\n}\n")[0]
    assert "(void)flag;" in second and "?" not in second
    rng = np.random.default_rng(0)
    for size in (0, 5, 16):
        x, y = (rng.integers(-5, 6, size).astype(dtype.numpy) for _ in range(2))
        for value in (0, -0.0, 2, float("nan")) if dtype.is_float else (0, 2, -1):
            for chosen in (True, False):
                given = {"a": x, "b": y, "beta": dtype.numpy.type(value), "flag": chosen}
                want = f.evaluate(**given)
                np.testing.assert_array_equal(kernel(**given), want)
                found = np.zeros(size, dtype.numpy)
                run(f.show("lowered"), {**given, "flag": np.bool_(chosen), "c": found}, {"N": size}, 1)
                np.testing.assert_array_equal(found, want)


def test_conditions_are_saved_copied_and_undone(tmp_path):
    f = scaled()
    (N,) = tm.params("N")
    before = f.source()["scaled.c"]
    f.specialize(N % 16 == 0, alpha=1.0)
    assert texts(f)[-1] == "scaled.specialize(N % 16 == 0, alpha=1.0)"
    f.save(tmp_path / "f.json")
    loaded = tm.load(tmp_path / "f.json")
    assert loaded.source() == f.source() == f.copy().source() != before
    assert "where alpha is 1.0 and N % 16 == 0:" in loaded.show("pseudocode")
    f.undo()
    assert f.source()["scaled.c"] == before


def test_versions_with_like_names_are_told_apart():
    f = scaled()
    (N,) = tm.params("N")
    f.specialize((N + 1) % 4 == 0)
    f.specialize((N - 1) % 4 == 0)
    assert len({version.function.name for version in f.show("lowered").companions.versions}) == 2
    for n in (3, 5, 6):
        given = {"a": np.ones(n, np.float32), "b": np.ones(n, np.float32), "alpha": 2.0, "beta": 3.0}
        np.testing.assert_array_equal(f.compile()(**given), np.full(n, 5, np.float32))


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (lambda f, n: n % 16, r"N % 16 is no condition: write N % 16 == 0"),
        (lambda f, n: i < n, r"i < N depends on i, and a version is chosen once for a call"),
        (lambda f, n: f.input("x", tm.int32, [4])[0] == 1, r"x\[0\] == 1 depends on x\[0\], .* parameters and scalars"),
        (lambda f, n: n >= 0, r"N >= 0 holds in every call of scaled"),
        (lambda f, n: n < 0, r"N < 0 contradicts what scaled assumes"),
        (lambda f, n: n == 7, r"scaled has a version for N == 7 already"),
        (lambda f, n: "N == 3", r"'N == 3' \(str\) cannot stand in an expression"),
        (lambda f, n: True, r"True holds in every call"),
        (lambda f, n: tm.params("Q")[0] == 1, r"Q"),
    ],
)
def test_what_no_call_is_chosen_by_is_refused(condition, says):
    f = scaled()
    (N,) = tm.params("N")
    f.specialize(N == 7)
    with pytest.raises(tm.CommandError, match=says):
        f.specialize(condition(f, N))


def test_no_sanitizer_has_anything_to_say_of_conditions():
    s = pl.matmul()
    (M,) = tm.params("M")
    s.C.update.reorder(i, k, j).vectorize(j, 8)
    s.f.specialize(M % 8 == 0)
    compiled = Compiled(lower(s.f.completed), "-O0", *SANITISERS)
    for m in (16, 17):
        a, b = np.ones((2, 4), np.float32), np.ones((4, m), np.float32)
        found = compiled.sanitised({"N": 2, "M": m, "K": 4}, A=a, B=b, C=np.zeros((2, m), np.float32))
        np.testing.assert_array_equal(found["C"], a @ b)
