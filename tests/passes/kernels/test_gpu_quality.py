"""What kernels are compiled to: full blocks without guards, no spills, inner loops that do little beside their work.

Full blocks are also right in the simulator, at sizes that have full and partial ones.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of
from tests.processors import NATIVE, native
from tests.selection import covering
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import Nvcc, find_nvcc
from tiramisu_py.toolchain.compilers.nvdisasm import find_nvdisasm, machine_code

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "gpu"
HEADER = ROOT / "tiramisu_py" / "backends" / "cuda" / "runtime" / "tm_kernel.h"
STORIES = ("blur", "heat", "matrix_product", "pictures", "sums", "transpose")


def story(name: str) -> ModuleType:
    """A story of examples/gpu."""
    with modules_of(FOLDER) as load:
        return load(name)


def kernels(f: tm.Function) -> str:
    """The text of a function's kernels."""
    return next(text for name, text in f.source().items() if name.endswith(".cu"))


def nvcc() -> Nvcc:
    """nvcc, where there is one."""
    found = find_nvcc(open_cache())
    return pytest.skip(found) if isinstance(found, str) else found


# -- right at sizes with full and partial blocks


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The matrix product, the terms added one by one in float32."""
    total = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for k in range(A.shape[1]):
        total += A[:, k : k + 1] * B[k : k + 1, :]
    return total


def blur(image: np.ndarray) -> np.ndarray:
    """Both stages of the blur, in float32."""
    three = np.float32(3)
    bx = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / three
    return (bx[:-2] + bx[1:-1] + bx[2:]) / three


def plate(start: np.ndarray, T: int) -> np.ndarray:
    """Steps of the heat in a plate, in float32."""
    heat = start
    for _ in range(T):
        after = start.copy()
        around = heat[:-2, 1:-1] + heat[2:, 1:-1] + heat[1:-1, :-2] + heat[1:-1, 2:]
        after[1:-1, 1:-1] = heat[1:-1, 1:-1] * np.float32(0.5) + around * np.float32(0.125)
        heat = after
    return heat


def block(start: np.ndarray, T: int) -> np.ndarray:
    """Steps of the heat in a block, in float32."""
    heat, inner, eighth = start, (slice(1, -1),) * 3, np.float32(0.125)
    for _ in range(T):
        after = start.copy()
        after[inner] = (
            heat[inner] * np.float32(0.25)
            + (heat[:-2, 1:-1, 1:-1] + heat[2:, 1:-1, 1:-1]) * eighth
            + (heat[1:-1, :-2, 1:-1] + heat[1:-1, 2:, 1:-1]) * eighth
            + (heat[1:-1, 1:-1, :-2] + heat[1:-1, 1:-1, 2:]) * eighth
        )
        heat = after
    return heat


def transposed(A: np.ndarray) -> np.ndarray:
    """The transpose."""
    return A.T


def drawn(*shape: int) -> np.ndarray:
    """A random array."""
    return np.random.default_rng(3).random(shape, dtype=np.float32)


LARGE: list[tuple[str, str, Callable[..., np.ndarray], dict[str, np.ndarray | int]]] = [
    ("matrix_product", "register tiles", product, {"A": drawn(133, 36), "B": drawn(36, 268)}),
    ("matrix_product", "double buffered", product, {"A": drawn(133, 36), "B": drawn(36, 268)}),
    ("transpose", "tiled", transposed, {"A": drawn(77, 99)}),
    ("blur", "fused", blur, {"image": drawn(37, 150)}),
    ("blur", "in registers", blur, {"image": drawn(37, 300)}),
    ("heat", "plate", plate, {"start": drawn(27, 300), "T": 3}),
    ("heat", "block", block, {"start": drawn(26, 15, 110), "T": 3}),
]


@pytest.mark.parametrize(("name", "variant", "expected", "given"), LARGE, ids=[f"{n} {v}" for n, v, _, _ in LARGE])
def test_full_and_partial_blocks_are_right_in_the_simulator_with_checks_on(
    name: str, variant: str, expected: Callable[..., np.ndarray], given: dict[str, np.ndarray | int]
) -> None:
    kernel = story(name).VARIANTS[variant]().compile(device="simulator", sanitize=True)
    np.testing.assert_array_equal(kernel(**given), expected(**given))


# -- the text


def test_a_full_block_of_the_matrix_product_has_no_guards() -> None:
    text = kernels(story("matrix_product").double_buffered())
    test = "if (16*k0 + 16 <= K && 128*j0 + 128 <= N && 128*i0 + 128 <= M) {"
    full = text[text.index(test) + len(test) : text.index("} else", text.index(test))]
    assert "total[i][j] += " in full
    assert "if (" not in full


def test_tests_for_full_blocks_are_the_same_for_all_threads_of_a_block() -> None:
    for name, variant in [("matrix_product", "double buffered"), ("transpose", "tiled"), ("heat", "block")]:
        text = kernels(story(name).VARIANTS[variant]())
        threads = re.findall(r"const int64_t (\w+) = threadIdx", text)
        tests = [line for line in text.splitlines() if " <= " in line and line.lstrip().startswith("if (")]
        assert tests
        assert not any(re.search(rf"\b{thread}\b", test) for thread in threads for test in tests)


def test_the_first_value_of_a_sum_is_stored_once_and_without_a_guard() -> None:
    text = kernels(story("matrix_product").shared_tiles())
    assert text.count("total_0 = ") == 1
    assert "float total_0 = 0.0f;" in text


def test_copies_of_the_matrix_product_take_16_bytes_at_once() -> None:
    text = kernels(story("matrix_product").double_buffered())
    sizes = Counter(re.findall(r"TM_ASYNC_COPY\([^;]*, (\d+)\);", text))
    assert sizes == {"16": 6, "4": 2}  # of the first tiles and the next ones; columns in fours are whole: N mod 4 = 0


# -- what nvcc makes of it


@pytest.mark.parametrize(("name", "architecture"), covering(STORIES, [75, 80, 90]))
def test_no_kernel_of_a_story_needs_local_memory(name: str, architecture: int) -> None:
    compiler = nvcc()
    for variant, build in story(name).VARIANTS.items():
        f = build()
        flags = ("-std=c++17", "--fmad=false", "-Xptxas", "-v")
        _, words = compiler.compile(f"{f.name}.cu", f.source(), Architecture(architecture), flags)
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words)
        assert frames, words
        assert set(frames) == {("0", "0", "0")}, f"{variant}:\n{words}"


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("variant", ["register tiles", "double buffered"])
def test_the_inner_loop_of_the_matrix_product_multiplies_and_adds(variant: str, architecture: int) -> None:
    f = story("matrix_product").VARIANTS[variant]()
    compiler = nvcc()
    if find_nvdisasm() is None:
        pytest.skip("nvdisasm is not installed")
    image, _ = compiler.compile("product.cu", f.source(), Architecture(architecture), ("-std=c++17",))
    (code,) = machine_code(image).values()
    inner = max(code.loops, key=lambda each: each.fused)
    assert inner.fused == 8 * 8 * 16
    assert inner.instructions <= 1.5 * inner.fused
    assert inner.operations["LDS.128"] == 4 * 16
    assert code.spills == 0


# -- division by small numbers


def test_division_by_a_small_odd_number_is_that_of_the_processor(tmp_path: Path) -> None:
    header = HEADER.read_text(encoding="utf-8")
    ((body,),) = [re.findall(r"#else\n(TM_HEADER float tm_divide\(.*?\n}\n)#endif", header, re.DOTALL)]
    program = f"""
#include <math.h>
#include <stdio.h>
#include <string.h>
#define TM_HEADER static inline
#define __fmul_rn(a, b) ((a) * (b))
#define __fmaf_rn(a, b, c) fmaf(a, b, c)
{body}
static unsigned bits(float x) {{ unsigned found; memcpy(&found, &x, 4); return found; }}
static unsigned differ(float a, float b) {{ return (bits(a) ^ bits(b)) & -(unsigned)(a == a || b == b); }}
static unsigned wrong(int n, unsigned exponent, unsigned step) {{ /* without branches, so that it has vectors */
  unsigned found = 0;
  for (unsigned part = 0; part < 1u << 23; part += step) {{
    const unsigned bits = exponent << 23 | part;
    float x;
    memcpy(&x, &bits, 4);
    found |= differ(tm_divide(x, n), x / n) | differ(tm_divide(-x, n), -x / n);
  }}
  return found;
}}
int main() {{
  for (int n = 3; n < 256; n += 14)
    for (unsigned exponent = 0; exponent < 256; exponent += exponent < 2 || exponent > 253 ? 1 : 63)
      if (exponent < 2 ? wrong(n, exponent, 1) : wrong(n, exponent, 7)) printf("2^%u / %d\\n", exponent - 127, n);
  return 0;
}}
"""
    (tmp_path / "divide.c").write_text(program)
    flags = native(["-O3", "-ffp-contract=off", NATIVE, "-fno-math-errno", "-fno-trapping-math"], "gcc")
    subprocess.run(["gcc", *flags, "divide.c", "-o", "divide", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run(["./divide"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout == ""


def test_only_divisions_by_small_odd_numbers_go_without_the_processors_own() -> None:
    (N,) = tm.params("N")
    i, b, t = tm.iters("i b t")
    for divisor in (2, 3, 4, 6, 255, 257, 0.3):
        f = tm.Function("quotients", params=[N])
        x = f.input("x", tm.float32, [N])
        y = f.computation("y", {i: N}, x[i] / divisor)
        f.outputs(y)
        y.split(i, 64, b, t)
        y.tag_gpu(blocks=[b], threads=[t])
        f.derive_transfers()
        assert ("tm_divide" in kernels(f)) is (divisor in (3, 255)), divisor


def test_values_that_a_statement_repeats_have_names_and_loads_stay_under_their_conditions() -> None:
    text = kernels(story("pictures").VARIANTS["warp"]())
    body = text[text.index("{", text.index("TM_KERNEL")) :]
    assert body.count("floorf(") == 2
    assert not any("image[" in line for line in re.findall(r"const \w+ part_\d+ = .*;", body))


def unaligned_product(vector: int) -> tm.Function:
    """The matrix product with copies of several neighbours, and rows of any length."""
    matrices = story("matrix_product")
    f, A, B, total, C = matrices.algorithm()
    i, j, k, k0, k1, p, q = (getattr(matrices, name) for name in ("i", "j", "k", "k0", "k1", "p", "q"))
    C.gpu_tile(i, j, 8, 16, matrices.i0, matrices.j0, matrices.i1, matrices.j1)
    total.compute_at(C, matrices.j1)
    total.store_in(tm.REGISTER)
    total.update.split(k, 16, k0, k1)
    total.update.copy(A, [p, q], at=k0, into=tm.SHARED, pad=4, deferred=True, buffers=2, vector=vector)
    total.update.copy(B, [p, q], at=k0, into=tm.SHARED, layout=[q, p], vector=vector)
    f.derive_transfers()
    return f


def test_copies_of_neighbours_that_may_not_be_aligned_are_right_and_one_by_one() -> None:
    f = unaligned_product(4)
    assert set(re.findall(r"TM_ASYNC_COPY\([^;]*, (\d+)\);", kernels(f))) == {"4"}
    given = {"A": drawn(21, 35), "B": drawn(35, 37)}
    kernel = f.compile(device="simulator", sanitize=True)
    np.testing.assert_array_equal(kernel(**given), product(**given))


def test_a_copy_of_three_neighbours_at_once_is_refused() -> None:
    with pytest.raises(tm.CommandError, match=r"vector=3: a thread copies 1, 2, 4, 8 neighbours at once"):
        unaligned_product(3)


def test_a_short_loop_around_a_long_one_is_not_unrolled() -> None:
    N, K = tm.params("N K")
    i, k, b, t, u = tm.iters("i k b t u")
    f = tm.Function("sums", params=[N, K])
    x = f.input("x", tm.float32, [N, K])
    total = f.reduction("total", {i: N}, {k: K}, tm.sum, x[i, k])
    y = f.computation("y", {i: N}, total[i])
    f.outputs(y)
    y.split(i, 1024, b, t)
    y.split(t, 256, u, t)
    y.tag_gpu(blocks=[b], threads=[t])
    total.compute_at(y, t)
    total.store_in(tm.REGISTER)
    f.derive_transfers()
    assert "#pragma unroll" not in kernels(f)
