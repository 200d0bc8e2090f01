"""On a machine with a GPU: the stories of examples/gpu there, against evaluate()."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import listed, module, sample, variants


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_a_story_is_right_on_the_gpu(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    if f.lowered().devices > tm.gpu_count():
        pytest.skip(f"{name} needs {f.lowered().devices} GPUs")
    kernel = f.compile(device="gpu")
    for size in (1, 40):
        given = sample(story, variant, size, 7)
        for found, expected in zip(listed(kernel(**given)), listed(f.evaluate(**given)), strict=True):
            np.testing.assert_array_equal(found, expected)
