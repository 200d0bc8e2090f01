"""A program of a GPU with files, in a process of its own whose libraries are others: run by test_files_of_gpus."""

import sys

import numpy as np

from tests.schedule.devices.test_files_of_gpus import waiting

s = waiting()
kernel = s.f.compile(device="simulator", storage=sys.argv[1])
for shape in ((2, 40), (3, 3000)):
    a = np.random.default_rng(0).random(shape)
    np.testing.assert_array_equal(kernel(a), s.f.evaluate(a))
    assert kernel.traffic["u"].stored == kernel.traffic["u"].loaded == a.nbytes
