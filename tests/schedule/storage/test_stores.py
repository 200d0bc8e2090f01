"""store_nontemporal: legal where it is said, right in each version, and in the text where it must be."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tests.lacking import CXX, without_cxx
from tests.processors import NATIVE, native
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, i, j, j0, j1, r, r0, r1
from tiramisu_py import backends
from tiramisu_py.lower import lower
from tiramisu_py.toolchain.machine.processor_caches import MOST_OF_A_CORE


def jammed(above: int | None = 0, width: int = 16) -> SimpleNamespace:
    """The blur by vectors of eight rows, past the caches."""
    s = pl.blur()
    s.by.split(r, 8, r0, r1).reorder(r0, c, r1).parallelize(r0).vectorize(c, width)
    s.bx.compute_at(s.by, c).unroll(r)
    s.by.unroll(r1)
    if above is not None:
        s.by.store_nontemporal(above=above)
    return s


def at_offset(shape: tuple[int, ...], dtype: np.dtype, offset: int) -> np.ndarray:
    """An array that begins so many bytes behind a multiple of 64."""
    count = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(count + 128, 0xAB, np.uint8)
    first = -memory.ctypes.data % 64 + offset
    return memory[first : first + count].view(dtype).reshape(shape)


SIZES = [(8, 32), (17, 64), (3, 33), (16, 15), (1, 1), (0, 16), (9, 48)]


@pytest.fixture(scope="module")
def kernel() -> tm.Kernel:
    return jammed().f.compile(threads=2)


@pytest.mark.parametrize("offset", [0, 4, 16, 32])
def test_every_version_computes_the_same(kernel, offset):
    f = jammed(None).f
    for R, C in SIZES:
        image = np.random.default_rng(R).random((R + 2, C + 2), dtype=np.float32)
        out = at_offset((R, C), np.dtype(np.float32), offset)
        kernel(image, by=out)
        np.testing.assert_array_equal(out, f.evaluate(image, R=R, C=C))


@pytest.mark.parametrize(
    ("above", "offset", "C", "streams"),
    [(0, 0, 32, True), (0, 16, 32, False), (0, 32, 32, False), (0, 0, 40, False), (10**6, 0, 32, False),
     (None, 0, 32, False), (8 * 32 * 4 + 10 * 34 * 4, 0, 32, False), (8 * 32 * 4 + 10 * 34 * 4 - 1, 0, 32, True)],
)  # fmt: skip
def test_a_call_chooses_by_size_and_address(above, offset, C, streams, tmp_path):
    s = jammed(None)
    s.by.store_nontemporal(above=above)
    source = s.f.source()
    said = source["blur.c"].replace("return blur_streaming(", "return 7 + blur_streaming(")
    assert said != source["blur.c"]
    library = _built({**source, "blur.c": said}, tmp_path)
    image, by = np.zeros((10, C + 2), np.float32), at_offset((8, C), np.dtype(np.float32), offset)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (image, by)]
    assert library.blur(ctypes.c_int64(8), ctypes.c_int64(C), *pointers) == (7 if streams else 0)
    assert not by.any()


def _built(source: dict[str, str], folder: Path) -> ctypes.CDLL:
    for name, text in source.items():
        (folder / name).write_text(text)
    flags = native(["-std=gnu11", "-fwrapv", "-O1", NATIVE, "-fopenmp", "-Wall", "-Wextra", "-Werror"], "gcc")
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", "blur.c", "-o", "blur.so", "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "blur.so"))


def doubled(lanes: int = 16, count: int = 1) -> tm.Function:
    """Planes of a picture, doubled past the caches: each vector of one plane, or of all planes in turn."""
    N, M, K = *tm.params("N M"), tm.iters("k")[0]
    f = tm.Function("blur", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    by = f.computation("by", {K: count, i: N, j: M}, a[i, j] + a[i, j])
    f.outputs(by)
    by.split(j, lanes, j0, j1).reorder(i, j0, K, j1).unroll(K)
    by.vectorize(j1, lanes, remainder="mask").store_nontemporal(above=0)
    return f


@pytest.mark.parametrize(
    ("lanes", "count", "offset", "M", "streams"),
    [(16, 1, 16, 32, True), (16, 1, 48, 36, True), (8, 1, 16, 32, True), (16, 1, 16, 34, False),
     (16, 1, 8, 32, False), (16, 2, 16, 32, True), (16, 2, 0, 32, True), (16, 3, 16, 32, True), (16, 3, 0, 32, True),
     (8, 3, 0, 48, True), (8, 3, 32, 48, False), (8, 3, 0, 40, False), (8, 5, 0, 48, False)],
)  # fmt: skip
def test_lines_filled_one_after_another_may_begin_at_any_multiple_of_16(lanes, count, offset, M, streams, tmp_path):
    f = doubled(lanes, count)
    source = dict(backends.emit(f.show("lowered", 32 if lanes == 8 else 64)))
    assert ("blur_body.h" in source) is ((lanes, count) != (8, 5))  # half lines of five rows are stored as usual
    assert ("TM_STREAM_PARTS(" in source.get("blur_body.h", "")) is (count <= 2)
    said = source["blur.c"].replace("return blur_streaming(", "return 7 + blur_streaming(")
    library = _built({**source, "blur.c": said}, tmp_path)
    a = np.random.default_rng(M).random((9, M), dtype=np.float32)
    by = at_offset((count, 9, M), np.dtype(np.float32), offset)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (a, by)]
    assert library.blur(ctypes.c_int64(9), ctypes.c_int64(M), *pointers) == (7 if streams else 0)
    np.testing.assert_array_equal(by, np.broadcast_to(a + a, (count, 9, M)))


@pytest.mark.parametrize("linux", [True, False])
def test_the_last_level_cache_is_found_with_and_without_the_files_of_linux(linux, tmp_path):
    (tmp_path / "tm_stores.h").write_text(jammed().f.source()["tm_stores.h"])
    (tmp_path / "main.c").write_text(
        '#include "tm_stores.h"\n'
        'int main(void) { printf("%ld %ld %ld", (long)tm_last_cache(), (long)tm_last_cache(), (long)TM_CACHED); }\n'
    )
    flags = [] if linux else ["-U__linux__"]
    subprocess.run(["gcc", "-std=gnu11", *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    first, again, cached = map(int, said.split())
    assert first == again and 2**18 <= first < 2**36 and cached == first // 4 * 3
    file = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
    if linux and file.exists():
        described = int(file.read_text().rstrip("K\n")) * 1024
        assert first == min(described, os.cpu_count() * MOST_OF_A_CORE)


def test_each_thread_waits_for_its_stores_within_the_parallel_region():
    body = jammed().f.source()["blur_body.h"]
    region = body[body.index("#pragma omp parallel") :]
    assert region.index("omp for schedule(static) nowait") < region.index("TM_STREAM(")
    assert region.rstrip().endswith("TM_STREAMED(tm_streams);\n  }\n  return 0;\n}")
    assert body.count("TM_STREAMED(") == 1


def test_a_serial_nest_waits_once_at_its_end():
    s = pl.scale()
    s.o.vectorize(j, 8).store_nontemporal()
    body = s.f.source()["scale_body.h"]
    assert body.count("TM_STREAMED(") == 1
    assert body.rstrip().endswith("TM_STREAMED(tm_streams);\n  return 0;\n}")


def test_serial_stores_between_parallel_loops_have_arrived_before_these():
    (T,) = tm.params("T")
    f = tm.Function("steps", params=[T])
    t = tm.iters("t")[0]
    a = f.input("a", tm.float32, [64])
    p = f.computation("p", {t: T, i: 64}, a[i] + 1)
    q = f.computation("q", {t: T, j: 64}, p[t, 63 - j] + 1)
    f.outputs(q)
    p.vectorize(i, 16).store_nontemporal(above=0)
    q.after(p, t).parallelize(j)
    body = f.source()["steps_body.h"]
    assert body.rindex("TM_STREAM_ALIGNED(") < body.index("TM_STREAMED(") < body.index("#pragma omp parallel for")
    assert body.count("TM_STREAMED(") == 1


def test_a_function_without_it_has_the_text_that_it_had():
    plain, with_it = jammed(None), jammed()
    with_it.f.undo()
    assert with_it.f.source() == plain.f.source()
    assert not any("tm_streams" in text or "TM_STREAM" in text for text in plain.f.source().values())


def test_it_is_in_the_pseudocode_and_stays_with_the_parts():
    s = jammed()
    assert "(non-temporal)" in s.f.show("pseudocode")
    s = pl.scale()
    s.o.store_nontemporal()
    s.o.separate_at(j, [8])
    for part in s.f.program.statements.values():
        assert part.memory.nontemporal is not None
    assert texts(s.f)[0] == "o.store_nontemporal()"
    other = s.f.copy()
    other.undo()
    other.undo()
    assert "non-temporal" not in other.show("pseudocode") and "non-temporal" in s.f.show("pseudocode")


@pytest.mark.parametrize("dtype", [tm.uint8, tm.int16, tm.float64, tm.int64], ids=str)
def test_vectors_of_every_type_go_past_the_caches(dtype):
    N, M = tm.params("N M")
    f = tm.Function("twice", params=[N, M])
    a = f.input("a", dtype, [N, M])
    o = f.computation("o", {i: N, j: M}, a[i, j] + a[i, j])
    f.outputs(o)
    o.vectorize(j, 64 // dtype.bytes).store_nontemporal(above=0)
    assert "TM_STREAM_PARTS(" in f.source()["twice_body.h"]
    kernel = f.compile()
    for n, m in ((3, 64), (5, 128), (2, 77)):
        given = np.arange(n * m).reshape(n, m).astype(dtype.numpy)
        np.testing.assert_array_equal(kernel(given), f.evaluate(given))


def test_narrow_vectors_are_stored_as_ever():
    s = pl.scale()
    s.o.vectorize(j, 2).store_nontemporal()
    assert "tm_streams" not in s.f.source()["scale.c"]
    s = pl.scale()
    s.o.store_nontemporal()
    assert "tm_streams" not in s.f.source()["scale.c"]


def test_stores_whose_column_is_not_known_look_at_their_address():
    N, M, K = tm.params("N M K")
    f = tm.Function("moved", params=[N, M, K], assume="K <= M")
    a = f.input("a", tm.float32, [N, M])
    o = f.computation("o", {i: N, j: (K, M)}, a[i, j] + 1, shape=[N, M])
    f.outputs(o)
    o.vectorize(j, 8).store_nontemporal(above=0)
    assert "TM_STREAM_ALIGNED(float32x8, tm_streams, " in f.source()["moved_body.h"]
    kernel = f.compile()
    for first in (0, 1, 8, 13, 64):
        given = np.random.default_rng(first).random((3, 64), dtype=np.float32)
        out = np.zeros((3, 64), np.float32)
        kernel(given, K=first, o=out)
        np.testing.assert_array_equal(out[:, first:], (given + np.float32(1))[:, first:])


def test_a_loop_that_begins_at_column_one_wants_the_array_one_element_earlier():
    N, M = tm.params("N M")
    f = tm.Function("inner", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    o = f.computation("o", {i: N, j: (1, M)}, a[i, j] + 1, shape=[N, M])
    f.outputs(o)
    o.vectorize(j, 16).store_nontemporal(above=0)
    assert "((uintptr_t)o + 4) % 16 == 0 && M % 4 == 0" in " ".join(f.source()["inner.c"].split())
    kernel = f.compile()
    given = np.random.default_rng(0).random((3, 64), dtype=np.float32)
    for offset in (0, 12, 60):
        out = at_offset((3, 64), np.dtype(np.float32), offset)
        kernel(given, o=out)
        np.testing.assert_array_equal(out[:, 1:], (given + np.float32(1))[:, 1:])


def test_no_sanitizer_has_anything_to_say():
    s = jammed()
    compiled = Compiled(lower(s.f.completed), "-O0", "-march=native", *SANITISERS)
    for R, C in ((9, 32), (3, 21)):
        image = np.random.default_rng(R).random((R + 2, C + 2), dtype=np.float32)
        found = compiled.sanitised({"R": R, "C": C}, image=image, by=np.zeros((R, C), np.float32))
        np.testing.assert_array_equal(found["by"], s.f.evaluate(image, R=R, C=C))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (lambda s: s.C.update.store_nontemporal(), "C.update reads what it stores"),
        (lambda s: s.C.store_nontemporal(), "C.update reads what it stores"),
        (lambda s: s.C.init.store_nontemporal(above=-1), "above is -1"),
        (lambda s: s.C.init.store_nontemporal(above=True), "above is True"),
        (lambda s: s.C.init.store_nontemporal(above=1.5), "above is 1.5"),
        (lambda s: s.C.init.tag_gpu([i], [j]).store_nontemporal(), "runs on a GPU"),
    ],
)
def test_it_is_refused_where_it_makes_no_sense(command, words):
    s = pl.matmul()
    with pytest.raises(tm.CommandError, match=words):
        command(s)


def test_registers_are_refused():
    s = pl.blur()
    s.bx.compute_at(s.by, c).store_in(tm.REGISTER)
    with pytest.raises(tm.CommandError, match="registers"):
        s.bx.store_nontemporal()
    s = pl.blur()
    s.bx.compute_at(s.by, c).store_nontemporal()
    with pytest.raises(tm.CommandError, match=r"bx stores past the caches.*leave out bx\.store_nontemporal\(\)"):
        s.bx.store_in(tm.REGISTER)
    assert "non-temporal" in s.f.show("pseudocode")


def test_the_start_of_a_reduction_may_be():
    s = pl.matmul()
    s.C.init.vectorize(j, 16).store_nontemporal(above=0)
    assert "TM_STREAM_PARTS(" in s.f.source()["mm_body.h"]
    s.C.update.parallelize(i)
    a, b = np.ones((4, 5), np.float32), np.ones((5, 32), np.float32)
    np.testing.assert_array_equal(s.f.compile()(a, b), np.full((4, 32), 5, np.float32))


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_the_host_of_a_program_with_a_gpu_stores_past_the_caches():
    N, M = tm.params("N M")
    f = tm.Function("both", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] * 2)
    o = f.computation("o", {i: N, j: M}, p[i, j] + 1)
    f.outputs(o)
    p.split(j, 16, j0, j1).tag_gpu([i, j0], [j1])
    o.vectorize(j, 16).store_nontemporal(above=0)
    f.derive_transfers()
    source = f.source()["both.c"]
    assert "const bool tm_streams = " in source and "TM_STREAMED(tm_streams);" in source
    kernel = f.compile(device="simulator", sanitize=True)
    for m in (32, 21):
        given = np.random.default_rng(m).random((3, m), dtype=np.float32)
        np.testing.assert_array_equal(kernel(given), f.evaluate(given))


def test_a_traced_and_pinned_function_stores_past_the_caches():
    s = jammed()
    kernel = s.f.compile(trace=True, pin="close", threads=2)
    image = np.random.default_rng(0).random((18, 66), dtype=np.float32)
    np.testing.assert_array_equal(kernel(image), s.f.evaluate(image))
    assert "tm_pin(" in kernel.source["blur.c"] and "tm_trace" in kernel.source["blur_body.h"]


def test_an_exported_library_has_all_that_it_needs(tmp_path):
    folder = jammed().f.compile().export(tmp_path / "blur")
    assert {"blur_body.h", "tm_stores.h"} <= {path.name for path in folder.iterdir()}
    main = """
#include <stdio.h>
#include "blur.h"
static float image[10][34], by[8][32] __attribute__((aligned(64)));
int main(void) {
  for (int r = 0; r < 10; r++) for (int c = 0; c < 34; c++) image[r][c] = 9;
  if (blur(8, 32, &image[0][0], &by[0][0]) != 0) return 1;
  for (int r = 0; r < 8; r++) for (int c = 0; c < 32; c++) if (by[r][c] != 9) return 2;
  puts("right");
}
"""
    (folder / "main.c").write_text(main)
    for build in ("make clean all", "cc main.c -I. libblur.a -fopenmp -lm -o main"):
        subprocess.run(build, shell=True, cwd=folder, check=True, capture_output=True)
    assert subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True).stdout == "right\n"
    kept = (folder / "Makefile").read_text()
    assert "blur_body.h" in kept and "tm_stores.h" in kept


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_every_processor_has_the_stores_of_its_width(compiler, target, tmp_path):
    if shutil.which(compiler) is None or platform.machine() != "x86_64":
        pytest.skip(f"needs {compiler} for x86-64")
    for name, text in jammed().f.source().items():
        (tmp_path / name).write_text(text)
    flags = f"-std=gnu11 -fwrapv -O2 -march={target} -fopenmp -Wall -Wextra -Werror -S blur.c -o blur.s"
    subprocess.run([compiler, *flags.split()], cwd=tmp_path, check=True)
    text = (tmp_path / "blur.s").read_text()
    register = {"x86-64": "%xmm", "x86-64-v3": "%ymm", "x86-64-v4": "%zmm"}[target]
    stores = [line for line in text.splitlines() if "movnt" in line]
    assert stores and all(register in line for line in stores) and "sfence" in text


def test_vectors_whose_place_is_moved_are_streams_too():
    """The column moves with the row: aligned or not is known only at run time."""
    N, M = tm.params("N M")
    f = tm.Function("moved", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    o = f.computation("o", {i: N, j: M}, a[i, j] + 1)
    f.outputs(o)
    o.skew(i, j, 1).vectorize(j, 8).store_nontemporal(above=0)
    assert "TM_STREAM" in f.source()["moved_body.h"]
    given = np.random.default_rng(0).random((17, 40), dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(given), given + np.float32(1))
