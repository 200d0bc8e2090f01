"""The kind of GPU of a function: chosen by a command, checked, proven with its limits, saved and compiled."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tiramisu_py.backends.cuda.simulated import BACKENDS
from tiramisu_py.program.machine.gpu_target import CUDA, GpuTarget

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")
SMALL = GpuTarget("small", most_threads=256, most_shared=1024)


def scaled(threads: int | None = None) -> tm.Function:
    """``o[i] = 2 * a[i]``, on `threads` threads a block."""
    f = tm.Function("scale", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("o", {i: N}, 2 * a[i]))
    if threads is not None:
        on_blocks(f, threads)
    return f


def on_blocks(f: tm.Function, threads: int) -> None:
    f["o"].split(i, threads, i0, i1)
    f["o"].tag_gpu(blocks=[i0], threads=[i1])


def through_shared(threads: int, target: GpuTarget) -> tm.Function:
    """``o[i] = a[i] + 1`` by way of a row of shared memory, which holds 4 bytes a thread."""
    f = tm.Function("staged", params=[N])
    a = f.input("a", tm.float32, [N])
    p = f.computation("p", {i: N}, a[i])
    o = f.computation("o", {i: N}, p[i] + 1)
    f.outputs(o)
    f.gpu_target(target)
    o.split(i, threads, i0, i1)
    o.tag_gpu(blocks=[i0], threads=[i1])
    p.compute_at(o, i0)
    p.tag_gpu(threads=[i])
    p.store_in(tm.SHARED)
    f.derive_transfers()
    return f


# -- a target


def test_a_target_is_written_as_it_was_given_and_the_rest_is_cudas() -> None:
    assert repr(SMALL) == "tm.GpuTarget('small', most_threads=256, most_shared=1024)"
    assert repr(CUDA) == "tm.GpuTarget('CUDA')"
    assert eval(repr(SMALL), {"tm": tm}) == SMALL
    others = {one.name for one in fields(SMALL)} - {"name", "most_threads", "most_shared"}
    assert all(getattr(SMALL, name) == getattr(CUDA, name) for name in others)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": ""}, r"tm\.GpuTarget: name is '': give a text that is not empty"),
        ({"most_threads": 0}, r"most_threads is 0: give an integer from 1 on"),
        ({"most_threads": True}, r"most_threads is True: give an integer from 1 on"),
        ({"most_shared": 1e4}, r"most_shared is 10000\.0: give an integer from 1 on"),
        ({"most_along": (256, 256)}, r"most_along is \(256, 256\): give a tuple of three integers from 1 on"),
        ({"most_blocks": [1, 1, 1]}, r"most_blocks is \[1, 1, 1\]: give a tuple of three integers"),
        ({"widest": 12}, r"widest is 12: give a power of two"),
        ({"header": "tm_kernel"}, r"header is 'tm_kernel': give the path of a file that ends in \.h or \.cuh"),
        ({"warp": 64}, r"warp is 64: the warps of CUDA have 32 threads; leave warp= out"),
        ({"most_threads": 2048}, r"most_threads is 2048: CUDA allows 1024; give at most that"),
        ({"most_shared": 256 * 1024}, r"most_shared is 262144: CUDA allows 232448; give at most that"),
        ({"most_along": (1, 1, 65)}, r"most_along is \(1, 1, 65\): CUDA allows \(1024, 1024, 64\)"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(tm.DeclarationError, match=message):
        GpuTarget(**{"name": "bad", **given})  # type: ignore[arg-type]


def test_a_target_of_another_compiler_has_limits_of_its_own() -> None:
    other = GpuTarget("other", warp=64, most_threads=2048, compiler="othercc")
    assert (other.warp, other.most_threads) == (64, 2048)


# -- the command


def test_tags_after_it_keep_within_its_limits() -> None:
    f = scaled()
    f.gpu_target(SMALL)
    f["o"].split(i, 512, i0, i1)
    with pytest.raises(tm.CommandError, match="the kernel of o has 512 threads: small allows 256 in a block"):
        f["o"].tag_gpu(blocks=[i0], threads=[i1])
    f.undo()
    on_blocks(f, 256)


def test_it_is_refused_where_a_kernel_exceeds_the_target_and_changes_nothing() -> None:
    f = scaled(512)
    before = texts(f)
    with pytest.raises(tm.CommandError, match="the kernel of o has 512 threads: small allows 256 in a block"):
        f.gpu_target(SMALL)
    assert texts(f) == before


@pytest.mark.parametrize("given", ["sm_90", 90, tm.gpu(), None])
def test_it_takes_a_target_and_says_where_architectures_and_devices_go(given: object) -> None:
    with pytest.raises(tm.CommandError, match=r"takes a tm\.GpuTarget.*compile\(architectures=.*compile\(device="):
        scaled().gpu_target(given)  # type: ignore[arg-type]


def test_the_last_target_counts_and_undo_takes_it_back() -> None:
    f = scaled()
    f.gpu_target(SMALL)
    f.gpu_target(GpuTarget("CUDA"))
    assert texts(f) == (
        "scale.gpu_target(tm.GpuTarget('small', most_threads=256, most_shared=1024))",
        "scale.gpu_target(tm.GpuTarget('CUDA'))",
    )
    on_blocks(f, 512)
    while f.commands:
        f.undo()
    f.gpu_target(SMALL)
    on_blocks(f, 256)


def test_tiles_of_a_partition_keep_within_the_target() -> None:
    f = scaled()
    f.gpu_target(GpuTarget("tiny", most_threads=64))
    with pytest.raises(tm.CommandError, match="has 256 threads: tiny allows 64 in a block; make the tile smaller"):
        f["o"].partition(i, [N], [tm.gpu(), tm.cores()])
    f["o"].partition(i, [N], [tm.gpu(tile=64), tm.cores()])


# -- the proof


@pytest.mark.parametrize(("threads", "proven"), [(256, True), (512, False)])
def test_the_proof_holds_the_target_to_shared_memory_and_blames_the_command(threads: int, proven: bool) -> None:
    roomy = GpuTarget("shared", most_shared=1024)
    report = through_shared(threads, roomy).check()
    assert report.ok == proven
    if not proven:
        assert "needs 2,048 bytes of shared memory" in str(report) and "shared allows 1,024" in str(report)
        assert report.violations[0].command == "p.store_in(tm.SHARED)"


def test_a_grid_beyond_the_target_is_refused_at_the_call() -> None:
    f = scaled()
    f.gpu_target(GpuTarget("few", most_blocks=(4, 1, 1)))
    on_blocks(f, 32)
    f.derive_transfers()
    kernel = f.compile(device="simulator")
    np.testing.assert_array_equal(kernel(np.ones(128, np.float32)), np.full(128, 2))
    with pytest.raises(tm.ArgumentError, match=r"<= 4, the blocks of kernel o along x"):
        kernel(np.ones(129, np.float32))


# -- files, and compilers


def test_a_file_keeps_it(tmp_path: Path) -> None:
    f = scaled()
    f.gpu_target(SMALL)
    on_blocks(f, 256)
    f.save(tmp_path / "f.json")
    g = tm.load(tmp_path / "f.json")
    assert g.commands == f.commands and g.completed.targets.gpu == SMALL


def test_kernels_include_the_header_of_the_target_and_the_report_trusts_it(tmp_path: Path) -> None:
    header = tmp_path / "tm_own.h"
    header.write_text((BACKENDS / CUDA.header).read_text() + "// own\n")
    f = scaled()
    f.gpu_target(GpuTarget("own", header=str(header)))
    on_blocks(f, 64)
    f.derive_transfers()
    assert f"the header of own, {header}, gives its names the meaning that tm_kernel.h" in str(f.check())
    kernel = f.compile(device="simulator")
    assert '#include "tm_own.h"' in kernel.source["scale.cu"] and kernel.source["tm_own.h"].endswith("// own\n")
    np.testing.assert_array_equal(kernel(np.arange(100, dtype=np.float32)), 2 * np.arange(100))


def test_a_header_that_is_not_there_is_refused_by_the_command() -> None:
    with pytest.raises(
        tm.CommandError, match=r"the header of own, /nowhere/tm_own\.h, is not a file: give .* the absolute path"
    ):
        scaled().gpu_target(GpuTarget("own", header="/nowhere/tm_own.h"))


def test_a_compiler_that_is_not_known_is_refused_by_compile() -> None:
    f = scaled()
    f.gpu_target(GpuTarget("own", compiler="owncc"))
    on_blocks(f, 64)
    f.derive_transfers()
    with pytest.raises(tm.ToolchainError, match="own need the compiler 'owncc'; known are: cuda"):
        f.compile(device="simulator")
