"""A GPU holds of each array the box that it uses: what is right, how many bytes, and what is copied."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperative_blur import C, G, H, R, blur, c, c0, c1, picture, r, simulator
from tests.programs.loop_ir.gpu_files import NVCC, nvcc

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
ROWS, COLUMNS = 10, 88


def _allocated(f: tm.Function) -> list[str]:
    return sorted(line.strip() for line in f.show("pseudocode").splitlines() if "allocate" in line)


def test_two_gpus_hold_their_rows_and_no_others_at_every_split():
    f = blur((G, H))
    kernel = f.compile(device="simulator", sanitize=True, seed=3)
    image = picture(ROWS, COLUMNS)
    gc.collect()
    for device in (0, 1):
        simulator().tm_simulator_most_bytes(device)  # from here on
    others = [simulator().tm_simulator_most_bytes(device) for device in (0, 1)]  # of kernels that still live
    for g, h in ((0, 0), (0, ROWS), (ROWS, ROWS), (1, 2), (3, 7), (0, 4), (5, 5), (9, 10)):
        np.testing.assert_array_equal(kernel(image, G=g, H=h), f.evaluate(image, G=g, H=h))
        for device, rows in ((0, g), (1, h - g)):
            bytes_held = 4 * ((rows + 2) * (COLUMNS + 2) + rows * COLUMNS)
            most = simulator().tm_simulator_most_bytes(device) - others[device]
            assert most == bytes_held if rows else most in (0, bytes_held + 1)  # begun or not; of nothing, one byte


def test_a_box_is_said_in_the_text_and_kernels_count_from_its_first_element():
    f = blur((G, H))
    assert _allocated(f) == [
        "allocate by@gpu0[G, C] in memory of GPU 0",
        "allocate by@gpu1[H - G, C] in memory of GPU 1",
        "allocate image@gpu0[G + 2, C + 2] in memory of GPU 0",
        "allocate image@gpu1[H - G + 2, C + 2] in memory of GPU 1",
    ]
    text = f.show("pseudocode")
    assert "copy image[G .. H + 2, 0 .. C + 2] to image@gpu1[0 .. H - G + 2, 0 .. C + 2]" in text
    assert "by[r - G, 64 * c0 + c1] = " in text
    source = f.source()["blur.cu"]
    assert "// image is held from [G, 0] on" in source and "by[(r - G)*C + 64*c0 + c1] = " in source


def test_what_is_copied_is_what_the_indices_of_the_algorithm_say():
    moved = blur((G, H)).cost("communication", R=10, C=8, G=3, H=7)
    assert [m.elements for m in moved.transfers] == [(3 + 2) * 10, (4 + 2) * 10, 3 * 8, 4 * 8]


def test_columns_are_cut_between_multiples_of_32_so_that_rows_stay_aligned():
    f = blur((G, H), columns=True)
    assert _allocated(f)[:2] == [
        "allocate by@gpu0[R, (G + 31) // 32 * 32] in memory of GPU 0",
        "allocate by@gpu1[R, (H + 31) // 32 * 32 - G // 32 * 32] in memory of GPU 1",
    ]
    kernel = f.compile(device="simulator", sanitize=True, seed=2)
    image = picture(4, COLUMNS)
    for g, h in ((0, 0), (0, COLUMNS), (COLUMNS, COLUMNS), (3, 70), (31, 33), (32, 64), (63, 65)):
        np.testing.assert_array_equal(kernel(image, G=g, H=h), f.evaluate(image, G=g, H=h))


def test_vectors_are_loaded_from_a_box_that_begins_anywhere():
    f = tm.Function("twice", params=[R, C, G], assume="0 <= G <= C")
    a = f.input("a", tm.float32, [R, 4 * C])
    b = f.computation("b", {r: R, c: 4 * C}, 2 * a[r, c])
    f.outputs(b)
    b.interchange(r, c)
    lane = tm.iters("lane")[0]
    for device, part in enumerate(b.separate_at(c, [4 * G])):
        part.split(c, 256, c0, c1)
        part.split(c1, 4, c1, lane)
        part.vectorize(lane, 4)
        part.tag_gpu(blocks=[c0], threads=[c1], device=device)
    f.derive_transfers()
    assert f.source()["twice.cu"].count("tm_load<4>") == 2
    kernel = f.compile(device="simulator", sanitize=True, seed=1)
    values = np.random.default_rng(1).random((3, 200), dtype=np.float32)
    for g in (0, 1, 7, 8, 9, 41, 50):
        np.testing.assert_array_equal(kernel(values, G=g), f.evaluate(values, G=g))


def test_two_parts_on_one_gpu_share_the_box_around_both():
    f = blur((G, H), devices=(0, 0))
    assert _allocated(f)[0] == "allocate by@gpu0[H, C] in memory of GPU 0"
    kernel = f.compile(device="simulator", sanitize=True, seed=4)
    image = picture(ROWS, COLUMNS)
    for g, h in ((0, 0), (0, 4), (4, 4), (3, 10)):
        np.testing.assert_array_equal(kernel(image, G=g, H=h), f.evaluate(image, G=g, H=h))


def test_a_point_that_no_condition_bounds_makes_no_box_of_less_than_nothing():
    f = tm.Function("half", params=[R, G])
    a = f.input("a", tm.int32, [R])
    o = f.computation("o", {r: R}, a[r] + 1)
    f.outputs(o)
    first, second = o.separate_at(r, [G])
    for device, part in enumerate((first, second)):
        part.split(r, 32, c0, c1)
        part.tag_gpu(blocks=[c0], threads=[c1], device=device)
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True, seed=6)
    values = np.arange(100, dtype=np.int32)
    for g in (0, 1, 31, 33, 99, 100, 101, 500):
        np.testing.assert_array_equal(kernel(values, G=g), values + 1)


@pytest.mark.skipif(NVCC is None, reason="nvcc is not on this machine")
@pytest.mark.parametrize("columns", [False, True])
def test_nvcc_has_nothing_to_say(columns, tmp_path):
    nvcc(blur((G, H), columns).show("lowered"), tmp_path, ("sm_90",))


def test_the_interpreter_finds_every_element_inside_its_box():
    f = blur((G, H))
    image = picture(5, 6)
    for g, h in ((0, 5), (2, 3), (5, 5)):
        found = f.simulate(image=image, G=g, H=h)
        np.testing.assert_array_equal(found, f.evaluate(image, G=g, H=h))
