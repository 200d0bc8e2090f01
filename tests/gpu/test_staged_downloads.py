"""Programs of cores and GPUs whose arrays are not page-locked, with downloads staged as on real devices: the same
results, whatever happens when."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import SEEDS, Arguments, is_right, listed, module, samples, variants
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperative_blur import blur, c0, c1, picture

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
R, C, G, H = tm.params("R C G H")
r, c = tm.iters("r c")
TIMINGS = ("lazy", "shuffled", "eager", "threads")
COOPERATIVE = [one for one in variants() if one[0].startswith("cooperative/")]
COPIES = ("async", "staged")


def agrees(f: tm.Function, monkeypatch: pytest.MonkeyPatch, *tries: Arguments) -> None:
    """Every seed, with copies of ordinary memory as late as they may be, and as the driver has them."""
    assert f.check().ok
    kernel = f.compile(device="simulator", sanitize=True)
    for given in tries:
        expected = listed(f.evaluate(**given))
        for seed in range(SEEDS):
            monkeypatch.setenv("TM_SIMULATOR", f"stages=1 pageable={COPIES[seed // 4 % 2]}")
            timing = TIMINGS[seed % 4]
            assert is_right(kernel.seeded(seed, timing), given, expected), (seed, timing)


@pytest.mark.parametrize(("name", "variant"), COOPERATIVE)
def test_a_story_is_right_with_staged_downloads(name: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story = module(name)
    agrees(story.VARIANTS[variant](), monkeypatch, *samples(story, variant, 20, 7))


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("devices", [(0, 1), (0, 0)])
def test_two_parts_on_gpus_are_delivered_beside_that_of_the_cores(
    columns: bool, devices: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    f = blur((G, H), columns=columns, devices=devices)
    agrees(f, monkeypatch, *({"image": picture(), "G": g, "H": h} for g, h in ((4, 7), (0, 3), (5, 5), (10, 10))))


def through_the_host() -> tm.Function:
    """What GPU 0 computes of a stage, and the cores, is read by GPU 1: through the memory of the host."""
    f = tm.Function("stages", params=[R, C, G, H], assume="0 <= G <= H and H <= R")
    a = f.input("a", tm.float32, [R, C])
    t = f.computation("t", {r: R, c: C}, 2 * a[r, c])
    o = f.computation("o", {r: R, c: C}, t[R - 1 - r, c] + a[r, C - 1 - c])
    f.outputs(o)
    for stage, point, device in ((t, H, 0), (o, G, 1)):
        part, _ = stage.separate_at(r, [point])
        part.split(c, 32, c0, c1)
        part.tag_gpu(blocks=[r, c0], threads=[c1], device=device)
    f.derive_transfers()
    return f


def test_what_one_gpu_computes_reaches_another_through_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(2).random((6, 40), dtype=np.float32)
    agrees(through_the_host(), monkeypatch, *({"a": a, "G": g, "H": h} for g, h in ((3, 4), (1, 6), (6, 6), (0, 6))))


def test_the_cores_and_a_gpu_overlap_though_no_array_is_page_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    f = module("cooperative/blur").VARIANTS["at once"]()
    given = {"image": picture(98, 98), "G": 50}
    kernel = f.compile(device="simulator", trace=True).seeded(1, "lazy")
    kernels_first = []
    for stages in (0, 1):
        monkeypatch.setenv("TM_SIMULATOR", f"stages={stages} pageable=staged")
        assert is_right(kernel, given, listed(f.evaluate(**given)))
        (kernel_event,), (nest,) = (kernel.trace.of(kind=kind) for kind in ("kernel", "nest"))
        (download,) = kernel.trace.of(kind="download")
        assert download.bytes == 50 * 98 * 4
        kernels_first.append(kernel_event.end <= nest.begin)
    assert kernels_first == [True, False]  # lazily: the kernel runs when the host waits for it
