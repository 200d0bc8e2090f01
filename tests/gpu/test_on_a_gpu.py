"""On a machine with a GPU: the stories of examples/gpu and examples/cooperative there, against evaluate()."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import listed, module, samples, variants


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_a_story_is_right_on_the_gpu(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    if f.lowered().devices > tm.gpu_count():
        pytest.skip(f"{name} needs {f.lowered().devices} GPUs")
    kernel = f.compile(device="gpu")
    for given in (given for size in (1, 40) for given in samples(story, variant, size, 7)):
        for found, expected in zip(listed(kernel(**given)), listed(f.evaluate(**given)), strict=True):
            np.testing.assert_array_equal(found, expected)
