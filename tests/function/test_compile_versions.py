"""Functions with a schedule for each of several processors: equal results, one C function, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, r1 = tm.iters("r c r0 r1")
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
FEATURES = set(tm.target().features)

x86 = pytest.mark.skipif("x86-64-v2" not in FEATURES, reason="no x86-64-v2 here")
Make = Callable[[tm.Target], tm.Function]


def algorithm(weight: float = 0.25, name: str = "smooth") -> tuple[tm.Function, tm.Computation, tm.Computation]:
    f = tm.Function(name, params=[R, C])
    image = f.input("image", tm.float32, [R, C + 2])
    down = f.computation("down", {r: R, c: C + 2}, image[r, c] * np.float32(weight))
    across = f.computation("across", {r: R, c: C}, down[r, c] + down[r, c + 1] + down[r, c + 2])
    f.outputs(across)
    return f, down, across


def scheduled(cpu: tm.Target) -> tm.Function:
    """Vectors and rows at a time for a processor; stores past the caches, and a version for one size."""
    f, down, across = algorithm()
    across.split(r, 4 if cpu.vector_registers == 32 else 2, r0, r1)
    across.parallelize(r0)
    down.compute_at(across, r1)
    across.vectorize(c, cpu.lanes(tm.float32), remainder="mask")
    across.store_nontemporal()
    f.specialize(C=40)
    return f


@pytest.fixture(scope="module")
def smooth() -> tm.Kernel:
    return tm.compile_versions(scheduled, LEVELS)


def picture(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(rows + columns).random((rows, columns + 2), dtype=np.float32)


def best() -> str:
    return max(level for level in LEVELS if level in FEATURES)


@x86
def test_the_best_version_that_the_processor_can_run_is_chosen(smooth: tm.Kernel) -> None:
    assert smooth.versions == ("x86-64-v4", "x86-64-v3", "x86-64-v2")
    assert smooth.version == best()
    assert smooth.name == "smooth"
    assert smooth.signature == "int smooth(int64_t R, int64_t C, const float *image, float *across);"
    assert f"for {best()} of x86-64-v4, x86-64-v3, x86-64-v2" in repr(smooth)


@x86
@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 1), (5, 40), (7, 31), (3, 33)])
def test_every_version_computes_the_same(smooth: tm.Kernel, rows: int, columns: int) -> None:
    image = picture(rows, columns)
    wanted = algorithm()[0].evaluate(image)
    assert np.array_equal(smooth(image), wanted)
    for version in LEVELS:
        if version in FEATURES:
            assert np.array_equal(smooth.using(version)(image), wanted)


@x86
def test_each_version_has_the_schedule_and_the_vectors_of_its_processor(smooth: tm.Kernel) -> None:
    for level, vector, rows in [("v2", "float32x4", 2), ("v3", "float32x8", 2), ("v4", "float32x16", 4)]:
        text = smooth.source[f"smooth_x86_64_{level}_body.h"]
        assert vector in text and f"{rows}*r0" in text.replace(" ", "")


@x86
def test_errors_are_those_of_the_function_whatever_runs(smooth: tm.Kernel) -> None:
    for kernel in (smooth, smooth.using("x86-64-v2")):
        with pytest.raises(tm.ArgumentError, match=r"^image has dtype float64"):
            kernel(np.zeros((3, 4)))
        with pytest.raises(tm.ArgumentError, match=r"^smooth has no array rows"):
            kernel.empty("rows", R=3)
    assert 'smooth_x86_64_v3_fail(TM_NULL, "smooth: image is NULL' in smooth.source["smooth_x86_64_v3.c"]


@x86
def test_a_kernel_of_versions_travels_and_chooses_where_it_arrives(smooth: tm.Kernel) -> None:
    image = picture(4, 20)
    received = pickle.loads(pickle.dumps(smooth))
    assert (received.version, received.versions, repr(received)) == (smooth.version, smooth.versions, repr(smooth))
    assert np.array_equal(received(image), smooth(image))
    named = pickle.loads(pickle.dumps(smooth.using("x86-64-v2")))
    assert named.version == "x86-64-v2" and np.array_equal(named(image), smooth(image))


@x86
def test_the_same_versions_are_built_once(smooth: tm.Kernel) -> None:
    again = tm.compile_versions(scheduled, LEVELS[::-1])
    assert again.library == smooth.library, "in whichever order they are listed"
    assert scheduled(tm.target("x86-64-v2")).compile(target="x86-64-v2").version == "x86-64-v2"


@x86
def test_the_environment_leaves_better_versions_out(smooth: tm.Kernel, tmp_path: Path) -> None:
    (tmp_path / "kernel").write_bytes(pickle.dumps(smooth))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).version)"
    for named, wanted in [("x86-64-v2", "x86-64-v2"), ("znver9", best()), ("", best())]:
        run = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "kernel")], capture_output=True, text=True, check=True,
            env={**os.environ, "TIRAMISU_VERSION": named},
        )  # fmt: skip
        assert run.stdout.strip() == wanted


# -- what is refused


def with_weight(cpu: tm.Target) -> tm.Function:
    return algorithm(0.5 if cpu.vector_bytes == 32 else 0.25)[0]


def with_name(cpu: tm.Target) -> tm.Function:
    return algorithm(name=f"smooth{cpu.vector_bytes}")[0]


def with_assumption(cpu: tm.Target) -> tm.Function:
    f = tm.Function("smooth", params=[R, C], assume=f"R >= {cpu.vector_bytes}")
    image = f.input("image", tm.float32, [R, C])
    f.outputs(f.computation("across", {r: R, c: C}, image[r, c]))
    return f


def with_input(cpu: tm.Target) -> tm.Function:
    f = tm.Function("smooth", params=[R, C])
    image = f.input("image", tm.float32 if cpu.vector_bytes == 16 else tm.float64, [R, C])
    f.outputs(f.computation("across", {r: R, c: C}, tm.cast(tm.float64, image[r, c])))
    return f


def transposed(cpu: tm.Target) -> tm.Function:
    f = tm.Function("smooth", params=[R])
    image = f.input("image", tm.float32, [R, R])
    across = f.computation("across", {r: R, c: R}, 2 * image[r, c])
    f.outputs(across)
    across.store_in(tm.Buffer("turned", [R, R], tm.float32), [c, r] if cpu.vector_bytes == 32 else [r, c])
    return f


def in_place(cpu: tm.Target) -> tm.Function:
    f = tm.Function("smooth", params=[R])
    image = f.input("image", tm.float32, [R])
    across = f.computation("across", {r: R}, 2 * image[r])
    f.outputs(across)
    if cpu.vector_bytes == 32:
        across.store_in(image, [r])
    return f


@x86
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (with_weight, "the computation down"), (with_name, "their names, smooth16 and smooth32"),
        (with_assumption, "what they assume"), (with_input, "the input image"),
        (transposed, "where they keep their outputs"), (in_place, "their arguments"),
    ],
)  # fmt: skip
def test_versions_that_are_not_one_function_are_refused(make: Make, what: str) -> None:
    with pytest.raises(tm.ArgumentError, match=f"x86-64-v2 and x86-64-v3 differ in {what}.*schedule alone"):
        tm.compile_versions(make, LEVELS[:2])


@x86
def test_each_version_is_proven() -> None:
    def wrong(cpu: tm.Target) -> tm.Function:
        f, down, across = algorithm()
        across.after(down, tm.root)
        if cpu.vector_bytes == 32:
            down.fold(r, 1)
        return f

    with pytest.raises(tm.LegalityError, match="overwritten") as refused:
        tm.compile_versions(wrong, LEVELS[:2])
    assert refused.value.__notes__ == ["in the version for x86-64-v3"]


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([], "at least one"), ("x86-64-v2", "names of processors"), (None, "names of processors"),
        (["x86-64-v2", "x86-64-v2"], "each once"), (["native"], "'native'"), ([None], "None"),
    ],
)  # fmt: skip
def test_lists_that_name_no_processors_are_refused(targets: list[str], said: str) -> None:
    with pytest.raises(tm.ArgumentError, match=said):
        tm.compile_versions(scheduled, targets)


def test_a_processor_that_no_compiler_knows_is_refused_before_anything_is_made() -> None:
    with pytest.raises(tm.ToolchainError, match=r"target='z80'.*does not know it"):
        tm.compile_versions(lambda cpu: pytest.fail("made"), ["z80"])


@x86
def test_processors_that_no_program_can_tell_apart_are_refused() -> None:
    with pytest.raises(tm.ArgumentError, match="haswell and core-avx2 have the same instruction sets"):
        tm.compile_versions(lambda cpu: algorithm()[0], ["haswell", "core-avx2"])


def test_make_returns_a_function() -> None:
    name = "x86-64-v2" if "x86-64-v2" in FEATURES else tm.target().name
    with pytest.raises(tm.ArgumentError, match="make returned None"):
        tm.compile_versions(lambda cpu: None, [name])  # type: ignore[arg-type, return-value]
    with pytest.raises(tm.ArgumentError, match="make is 3"):
        tm.compile_versions(3, [name])  # type: ignore[arg-type]


@x86
@pytest.mark.parametrize("static", ["static ", ""])
def test_an_external_function_belongs_to_each_version(static: str) -> None:
    half = tm.extern(
        "half_of", [tm.float32], tm.float32, source=f"{static}float half_of(float x) {{ return x / 2; }}",
        python=lambda x: x / 2,
    )  # fmt: skip

    def halves(cpu: tm.Target) -> tm.Function:
        f = tm.Function("halves", params=[R])
        image = f.input("image", tm.float32, [R])
        f.outputs(f.computation("halved", {r: R}, half(image[r])))
        return f

    if static:
        image = picture(1, 3)[0]
        assert np.array_equal(tm.compile_versions(halves, LEVELS[:2])(image), image / 2)
    else:
        with pytest.raises(tm.ToolchainError, match=r"half_of is defined .* in each version .* make it static"):
            tm.compile_versions(halves, LEVELS[:2])


@x86
def test_functions_with_packed_operands_have_no_versions() -> None:
    """The layout is that of one schedule."""

    def kept(cpu: tm.Target) -> tm.Function:
        f = tm.Function("kept", params=[R, C])
        image, x = f.input("image", tm.float32, [R, C]), f.input("x", tm.float32, [C])
        sums = f.reduction("sums", {r: R}, {c: C}, tm.sum, image[r, c] * x[c])
        f.outputs(sums)
        sums.update.copy(image, [r0, r1], layout=[r1, r0]).keep()
        return f

    with pytest.raises(tm.UnsupportedError, match="kept keeps image_packed between calls"):
        tm.compile_versions(kept, ["x86-64-v2", "x86-64-v3"])


def test_functions_on_ranks_have_no_versions() -> None:
    def spread(cpu: tm.Target) -> tm.Function:
        f = tm.Function("spread", params=[R])
        image = f.input("image", tm.float32, [R, 4])
        twice = f.computation("twice", {r: R, c: 4}, 2 * image[r, c])
        f.outputs(twice)
        for array in (image, twice):
            array.distribute_array([r, c], rank=r // 8)
        twice.split(r, 8, r0, r1)
        twice.tag_distribute(r0)
        return f

    with pytest.raises(tm.UnsupportedError, match="spread uses ranks"):
        tm.compile_versions(spread, LEVELS[:1])


@x86
def test_a_version_that_is_not_there_is_refused(smooth: tm.Kernel) -> None:
    with pytest.raises(tm.ArgumentError, match="smooth has no version for 'z80': its versions are for x86-64-v4, x86"):
        smooth.using("z80")
    with pytest.raises(tm.ArgumentError, match=r"one version, for .*compile_versions"):
        algorithm()[0].compile().using("x86-64-v2")


@x86
def test_a_version_that_this_machine_cannot_run_is_refused() -> None:
    lacked = next((name for name, sets in [("knl", "avx512er"), ("bdver4", "xop")] if sets not in FEATURES), None)
    if lacked is None:
        pytest.skip("this machine has all instruction sets of old processors")
    kernel = tm.compile_versions(lambda cpu: algorithm()[0], ["x86-64-v2", lacked])
    assert kernel.version == "x86-64-v2" and kernel.versions == (lacked, "x86-64-v2")
    with pytest.raises(tm.ArgumentError, match=f"smooth for {lacked} cannot run here: this machine lacks "):
        kernel.using(lacked)
    alone = tm.compile_versions(lambda cpu: algorithm()[0], [lacked])
    with pytest.raises(tm.KernelError, match=r"can run none of the versions of smooth.*more general"):
        alone(picture(2, 2))
