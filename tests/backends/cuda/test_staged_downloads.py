"""Downloads into memory that is not page-locked, staged as on real devices: they do not hold the host up, and their
values are there wherever the host may rely on them."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.cuda import simulation
from tests.backends.cuda.simulation import (
    HOST,
    WAIT,
    Box,
    Call,
    GpuError,
    checked,
    configure,
    long,
    random,
    runtime,
)

Array = np.ndarray[Any, Any]
LINE = 80  # bytes of a line of the matrices here: 20 numbers
TIMINGS = ("eager", "lazy", "shuffled", "threads")


@pytest.fixture(autouse=True)
def as_they_are() -> Iterator[None]:
    """The options of this thread are as they were."""
    yield
    configure()


def lazily(stages: int = 1) -> None:
    """Streams do what is waited for, and copies of memory that is not page-locked are the driver's."""
    configure(f"timing=lazy pageable=staged stages={stages}")


def columns(first: int, count: int) -> Box:
    """Columns of a matrix of 6 lines, which lie in a matrix of the device as they do in the host's."""
    return Box(4 * count, 6, 1, LINE, 6 * LINE, LINE, 6 * LINE)


def recorded(gpu: Call, stream: int, device: int = 0) -> ctypes.c_void_p:
    """An event after all that is on a stream."""
    event = gpu.events(1, device)[0]
    gpu.record(stream, event, device)
    return event


@pytest.mark.parametrize("stages", [0, 1])
def test_the_host_goes_on_while_a_kernel_runs_and_has_the_values_when_it_has_waited(stages: int) -> None:
    lazily(stages)
    values, found = random(640), np.zeros(640, np.float32)
    with Call() as gpu:
        place = gpu.to(values)
        gpu.launch("add_one", (10,), long(640), place, stream=0)
        gpu.fetch(found, place, 0)
        assert found.any() == (stages == 0)  # the driver returns when it is complete
        event = recorded(gpu, 0)
        assert found.any() == (stages == 0)
        gpu.wait(event)
        assert np.array_equal(found, values + np.float32(1))


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize(
    "pitches", [(40, 400, 32, 256), (32, 256, 40, 400), (24, 192, 24, 192), (40, 365, 32, 259), (24, 192, 40, 400)]
)
def test_a_box_is_delivered_and_nothing_beside_it(pitches: tuple[int, ...], timing: str) -> None:
    target_pitch, target_plane, source_pitch, source_plane = pitches
    run, lines, planes = 24, 8, 5
    source = np.random.default_rng(0).integers(0, 255, 2000).astype(np.uint8)
    expected, found = np.full(2000, 7, np.uint8), np.full(2000, 7, np.uint8)
    for p in range(planes):
        for r in range(lines):
            to, start = p * target_plane + r * target_pitch, p * source_plane + r * source_pitch
            expected[to : to + run] = source[start : start + run]
    configure(f"timing={timing} stages=1")
    with Call() as gpu:
        box = Box(run, lines, planes, target_pitch, target_plane, source_pitch, source_plane)
        gpu.box(found.ctypes.data, HOST, gpu.to(source), 0, box, 0)
        assert (found == 7).all()
        gpu.wait(recorded(gpu, 0))
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("older", [0, 1])
def test_a_wait_delivers_what_it_waits_for_through_other_streams_and_devices_and_nothing_else(older: int) -> None:
    lazily()
    first, second = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with Call() as gpu:
        places = [gpu.to(random(64)), gpu.to(random(64, seed=1), 1)]
        for device in (older, 1 - older):
            gpu.fetch((first, second)[device], places[device], 0, device)
        gpu.wait(recorded(gpu, 0), 3, device=1)  # a stream that nothing else is on
        gpu.wait(recorded(gpu, 3, 1))
        assert np.array_equal(first, random(64)) and not second.any()
        gpu.wait(recorded(gpu, 0, 1))
        assert np.array_equal(second, random(64, seed=1))


@pytest.mark.parametrize("how", ["copy", "copy and wait", "launch", "fill", "end"])
def test_whatever_waits_for_a_stream_delivers(how: str) -> None:
    lazily()
    found = np.zeros(64, np.float32)
    with Call() as gpu:
        place = gpu.to(random(64))
        gpu.fetch(found, place, 0)
        event = recorded(gpu, 0)
        assert not found.any()
        gpu.wait(event, WAIT)  # the stream of what the thread waits for
        if how == "copy":
            gpu.back(place, found)
        elif how == "copy and wait":
            other = np.zeros(64, np.float32)
            gpu.box(other.ctypes.data, HOST, place, 0, Box(256, 1, 1), 0, 1)
        elif how == "launch":
            gpu.launch("add_one", (1,), long(64), place)
        elif how == "fill":
            checked(runtime().tm_gpu_zero(gpu.handle, 0, ctypes.c_void_p(place), ctypes.c_size_t(256), WAIT))
        assert found.any() == (how != "end")
    assert np.array_equal(found, random(64))


@pytest.mark.parametrize("begin", [0, 40, 63, 64])
def test_an_upload_reads_what_a_download_was_ordered_to_bring(begin: int) -> None:
    lazily()
    found = np.zeros(128, np.float32)
    with Call() as gpu:
        gpu.fetch(found[:64], gpu.to(random(64)), 0)
        other = gpu.allocate(256, 1)
        gpu.wait(recorded(gpu, 0), 0, device=1)
        gpu.send(other, found[begin : begin + 64], 0, 1)
        assert found.any() == (begin < 64)  # not held up where it has nothing of it
        gpu.wait(recorded(gpu, 0, 1))
        there = gpu.back(other, np.empty(64, np.float32), 1)
        assert np.array_equal(there, np.concatenate([random(64), np.zeros(64, np.float32)])[begin : begin + 64])


@pytest.mark.parametrize(
    ("first", "count", "meets"),
    [(5, 4, False), (0, 2, False), (9, 11, False), (4, 2, True), (1, 2, True), (0, 20, True)],
)
@pytest.mark.parametrize("down", [0, LINE])
def test_columns_that_are_apart_do_not_wait_for_each_other(first: int, count: int, meets: bool, down: int) -> None:
    # what is loaded begins in the first line, what is stored there or in the second
    lazily()
    matrix = np.zeros((7, 20), np.float32)
    with Call() as gpu:
        place, other = gpu.to(random(7, 20)), gpu.allocate(matrix.nbytes, 1)
        gpu.box(matrix.ctypes.data + down + 8, HOST, place + down + 8, 0, columns(2, 3), 0)
        gpu.wait(recorded(gpu, 0), 0, device=1)
        gpu.box(other + 4 * first, 1, matrix.ctypes.data + 4 * first, HOST, columns(first, count), 0)
        assert matrix.any() == meets
    expected = np.zeros((7, 20), np.float32)
    expected[down // LINE :, 2:5][:6] = random(7, 20)[down // LINE :, 2:5][:6]
    assert np.array_equal(matrix, expected)


def test_a_copy_on_the_host_reads_what_was_delivered_and_is_not_overwritten_later() -> None:
    lazily()
    found, copied = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with Call() as gpu:
        place = gpu.to(random(64))
        gpu.fetch(found, place, 0)
        gpu.box(copied.ctypes.data, HOST, found.ctypes.data, HOST, Box(256, 1, 1))
        assert np.array_equal(copied, random(64))
        gpu.fetch(found, place, 0)
        gpu.box(found.ctypes.data, HOST, np.ones(64, np.float32).ctypes.data, HOST, Box(256, 1, 1))
    assert (found == 1).all()


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("last", ["staged", "waited for"])
def test_the_later_of_two_into_the_same_place_stays(timing: str, last: str) -> None:
    for seed in range(20 if timing != "threads" else 5):
        configure(f"seed={seed} timing={timing} delay=50 stages=1 pageable={'async' if seed % 2 else 'staged'}")
        found = np.zeros(96, np.float32)
        with Call() as gpu:
            early, late = gpu.to(random(64)), gpu.to(random(64, seed=1), 1)
            gpu.fetch(found[:64], early, 0)
            gpu.wait(recorded(gpu, 0), 1, device=1)
            gpu.box(found[32:].ctypes.data, HOST, late, 1, Box(256, 1, 1), 1, int(last == "waited for"))
            if last == "staged":
                gpu.wait(recorded(gpu, 1, 1))
            assert np.array_equal(found, np.concatenate([random(64)[:32], random(64, seed=1)])), seed


def test_page_locked_memory_is_not_staged() -> None:
    configure("timing=eager stages=1")
    ordinary, locked = np.zeros(64, np.float32), np.zeros(64, np.float32)
    with Call() as gpu:
        place, pinned = gpu.to(random(64)), gpu.pinned((64,))
        lock = runtime().tm_gpu_lock_pages
        checked(lock(gpu.handle, ctypes.c_void_p(locked.ctypes.data), ctypes.c_size_t(locked.nbytes)))
        for target in (pinned, locked, ordinary):
            target[:] = 0
            gpu.fetch(target, place, 0)
            assert target.any() == (target is not ordinary)
    assert np.array_equal(ordinary, locked)


def test_a_pipeline_delivers_what_has_arrived_as_it_goes_on() -> None:
    configure("timing=eager stages=1")
    found = np.zeros((50, 64), np.float32)
    with Call() as gpu:
        place = gpu.to(random(50, 64))
        for n, chunk in enumerate(found):
            gpu.fetch(chunk, place + 256 * n, n % 2)
            assert np.array_equal(found[:n], random(50, 64)[:n]) and not found[n:].any()
    assert np.array_equal(found, random(50, 64))


def test_staging_memory_is_kept_for_later_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # of a runtime of its own: streams are kept, too, and are of the timing that they were made in
    own = ctypes.CDLL(shutil.copy(simulation.runtime_library(), tmp_path))
    own.tm_gpu_error.restype = ctypes.c_char_p
    monkeypatch.setattr(simulation, "runtime", lambda: own)
    configure("timing=lazy stages=1 pools=1 pageable=staged")
    for seed in range(5):
        found = np.zeros((20, 64), np.float32)
        with Call() as gpu:
            place = gpu.to(random(20, 64, seed=seed))
            for n, chunk in enumerate(found):
                gpu.fetch(chunk, place + 256 * n, 0)
                if n % 7 == 6:
                    gpu.wait(recorded(gpu, 0))
            assert np.array_equal(found[:14], random(20, 64, seed=seed)[:14]) and not found[14:].any()
            used = gpu.pinned((64,)).ctypes.data
        assert np.array_equal(found, random(20, 64, seed=seed))
        with Call() as gpu:
            gpu.fetch(found[0], gpu.to(random(64)), 0)
            gpu.wait(recorded(gpu, 0))
            assert used in {gpu.pinned((64,)).ctypes.data for _ in range(8)}  # seven at once, and that one


def test_more_than_there_was_room_for_are_delivered_in_their_order() -> None:
    lazily()
    found = np.zeros(100 + 63, np.float32)
    expected = np.zeros_like(found)
    with Call() as gpu:
        place = gpu.to(random(100, 64))
        for n in range(100):
            gpu.fetch(found[n : n + 64], place + 256 * n, 0)
            expected[n : n + 64] = random(100, 64)[n]
        assert not found.any()
        gpu.wait(recorded(gpu, 0))
        assert np.array_equal(found, expected)


def test_a_call_that_fails_delivers_nothing_that_has_not_arrived() -> None:
    lazily()
    found = np.zeros(64, np.float32)
    with pytest.raises(GpuError, match="too_deep"), Call() as gpu:
        place = gpu.to(random(64))
        gpu.launch("too_deep", (1,), place, stream=0)
        gpu.fetch(found, place, 0)
        gpu.wait(recorded(gpu, 0))
    assert not found.any()
    with Call() as gpu:
        gpu.fetch(found, gpu.to(random(64)), 0)
    assert np.array_equal(found, random(64))
