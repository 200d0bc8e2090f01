"""Bytes in files, and which parts of a model go there: without PyTorch."""

from __future__ import annotations

import errno
import itertools
import os
import random
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.torch import tensor_files
from tiramisu_py.torch.offload_choice import bandwidth_needed, last_offloaded
from tiramisu_py.torch.tensor_files import PIECE, TensorFiles
from tiramisu_py.torch.tensor_stores import PAGE, Extents, HostBytes, whole_pages


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, PAGE + 1, PIECE, PIECE + 5])
def test_bytes_come_back(size: int, tmp_path: Path) -> None:
    files = TensorFiles(tmp_path)
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    places = [files.place(size) for _ in range(2)]
    for place in places:
        assert files.store(place, HostBytes(data)).result(20)
    found = [np.zeros(size, np.uint8) for _ in places]
    for place, own in zip(places, found, strict=True):
        assert files.load(place, HostBytes(own)).result(20)
        np.testing.assert_array_equal(own, data)
    assert (files.written, files.read) == (2 * size, 2 * size)
    assert not list(tmp_path.iterdir())
    files.close()
    assert files.load(places[0], HostBytes(found[0])).result(0)  # without threads, at once


def test_places_are_used_again(tmp_path: Path) -> None:
    files = TensorFiles(tmp_path)
    first, second = files.place(3 * PAGE), files.place(PAGE)
    assert (first.offset, second.offset) == (0, 3 * PAGE)
    del first
    third, fourth = files.place(PAGE), files.place(2 * PAGE)
    assert {third.offset, fourth.offset} == {0, PAGE}
    files.close()


def test_extents_never_overlap_and_join_again() -> None:
    draw, extents, taken = random.Random(0), Extents(), list[tuple[int, int]]()
    for _ in range(400):
        if taken and draw.random() < 0.5:
            extents.give_back(*taken.pop(draw.randrange(len(taken))))
        else:
            size = draw.randrange(1, 5 * PAGE)
            taken.append((extents.take(size), size))
        spans = sorted((offset, offset + whole_pages(size)) for offset, size in taken)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
        assert all(end <= extents.end for _, end in spans)
    for each in taken:
        extents.give_back(*each)
    assert extents.take(extents.end) == 0


def test_a_store_that_is_no_longer_wanted_is_dropped(tmp_path: Path) -> None:
    files = TensorFiles(tmp_path)
    place = files.place(PAGE)
    assert files.store(place, HostBytes(np.ones(PAGE, np.uint8)), lambda: False).result(20) is False
    assert files.written == 0
    files.close()


def test_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.ArgumentError, match=r"gone does not exist: make it"):
        TensorFiles(tmp_path / "gone")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid():  # root writes anywhere
        with pytest.raises(tm.ArgumentError, match="closed cannot be written to"):
            TensorFiles(closed)
    memory = Path("/dev/shm")
    if memory.is_dir() and tensor_files._file_system(memory) == "tmpfs":
        with pytest.raises(tm.ArgumentError, match=r"/dev/shm is in memory \(tmpfs\)"):
            TensorFiles(memory)


def test_a_full_disk_is_known_before_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = TensorFiles(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(tm.ArgumentError, match=r"has no room for 4096 more bytes beside 0: give another folder"):
        files.place(PAGE)
    files.close()


def test_errors_of_a_disk_are_the_result_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = TensorFiles(tmp_path)
    place = files.place(PAGE)
    monkeypatch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    stored: Future[bool] = files.store(place, HostBytes(np.ones(PAGE, np.uint8)))
    assert isinstance(stored.exception(20), OSError)
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    assert "shorter" in str(files.load(place, HostBytes(np.zeros(PAGE, np.uint8))).exception(20))
    files.close()


def test_the_choice_of_parts_is_the_best_of_all() -> None:
    draw = random.Random(1)
    for _ in range(200):
        count = draw.randrange(1, 7)
        held, seconds = [draw.randrange(100) for _ in range(count)], [draw.random() for _ in range(count)]
        bandwidth = draw.random() * 200
        chosen = last_offloaded(held, seconds, bandwidth)
        for last in range(count):
            # backwards of part `last` begins after all forwards and the backwards of those after it
            time = sum(seconds) + sum(2 * each for each in seconds[last + 1 :])
            moved = sum(held[:last]) + 2 * held[last]
            assert bandwidth_needed(held, seconds, last) == pytest.approx(moved / time)
            assert (moved / time <= bandwidth) <= (last <= chosen)
        assert chosen == -1 or bandwidth_needed(held, seconds, chosen) <= bandwidth
