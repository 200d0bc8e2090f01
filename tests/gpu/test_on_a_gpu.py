"""On a machine with a GPU: the stories of examples/gpu and examples/cooperative there, against evaluate()."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import listed, module, samples, variants
from tests.programs.gpu.cooperative_blur import G, H, R, blur, c0, c1, picture, r

COOPERATIVE = [each for each in variants() if each[0].startswith("cooperative/")]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_a_story_is_right_on_the_gpu(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    if f.show("lowered").gpus.devices > tm.gpu_count():
        pytest.skip(f"{name} needs {f.show('lowered').gpus.devices} GPUs")
    kernel = f.compile(device="gpu")
    for given in (given for size in (1, 40) for given in samples(story, variant, size, 7)):
        for found, expected in zip(listed(kernel(**given)), listed(f.evaluate(**given)), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "variant"), COOPERATIVE)
def test_a_cooperative_story_is_right_with_its_arrays_page_locked_and_its_events_logged(
    name: str, variant: str
) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    if f.show("lowered").gpus.devices > tm.gpu_count():
        pytest.skip(f"{name} needs {f.show('lowered').gpus.devices} GPUs")
    kernel = f.compile(device="gpu", page_lock=True, trace=True)
    launched = 0
    for given in samples(story, variant, 40, 7):
        for _ in range(2):  # the second locks again what the first has unlocked
            for found, expected in zip(listed(kernel(**given)), listed(f.evaluate(**given)), strict=True):
                np.testing.assert_array_equal(found, expected)
        for event in kernel.trace.events:
            assert -1e-4 < event.begin <= event.end < kernel.trace.seconds + 1e-4
        launched += len(kernel.trace.of(kind="kernel"))
    assert launched > 0


@pytest.mark.gpu
def test_memory_that_may_only_be_read_is_copied_as_it_is(tmp_path: Path) -> None:
    f = blur((G, H), devices=(0, 0))
    np.save(tmp_path / "image.npy", picture())
    image = np.load(tmp_path / "image.npy", mmap_mode="r")
    kernel = f.compile(device="gpu", page_lock=True)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(image, G=4, H=7), f.evaluate(picture(), G=4, H=7))


@pytest.mark.gpu
def test_what_is_copied_to_a_gpu_has_arrived_when_a_function_is_called() -> None:
    f = tm.Function("twice", params=[R])
    a = f.input("a", tm.float32, [R], memory=tm.GPU_MEMORY)
    o = f.computation("o", {r: R}, 2 * a[r])
    f.outputs(o)
    o.split(r, 32, c0, c1)
    o.tag_gpu(blocks=[c0], threads=[c1])
    f.derive_transfers()
    kernel = f.compile(device="gpu")
    for n in range(200):
        values = np.full(12000, n, np.float32)  # less than what the driver copies before it returns
        np.testing.assert_array_equal(kernel(tm.to_gpu(values)), 2 * values)
