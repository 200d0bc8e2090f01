"""Streams: what is on one is done in its order, what is on several in any that events allow.

The host sees what it has waited for.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest

from tests.ptx.entry_points import Gpu, Refused, gpu, kernel

SEEDS = range(24)
DOUBLE = kernel("ld.global.u32 %r1, [%rd0]; add.u32 %r1, %r1, %r1; st.global.u32 [%rd0], %r1;")
TO_NEXT = kernel("ld.global.u32 %r1, [%rd0]; st.global.u32 [%rd0+4], %r1;")


@dataclass(frozen=True)
class Queue:
    """A stream, with what can be put on it."""

    device: Gpu
    handle: ctypes.c_void_p

    @staticmethod
    def of(device: Gpu) -> Queue:
        handle = ctypes.c_void_p()
        device.do("cuStreamCreate", ctypes.byref(handle), 1)
        return Queue(device, handle)

    def upload(self, address: int, array: np.ndarray) -> None:
        self.device.do("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data),
                       ctypes.c_size_t(array.nbytes), self.handle)  # fmt: skip

    def download(self, host: int, address: int, size: int) -> None:
        self.device.do(
            "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(host), ctypes.c_uint64(address), ctypes.c_size_t(size), self.handle
        )

    def launch(self, text: str, address: int) -> None:
        function, module = ctypes.c_void_p(), self.device.load(text)
        self.device.do("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        one = ctypes.c_uint64(address)
        given = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(one), ctypes.c_void_p))
        self.device.do("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, self.handle, given, None)

    def record(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self.device.do("cuEventCreate", ctypes.byref(event), 0)
        self.device.do("cuEventRecord", event, self.handle)
        return event

    def wait(self, event: ctypes.c_void_p) -> None:
        self.device.do("cuStreamWaitEvent", self.handle, event, 0)

    def finish(self) -> None:
        self.device.do("cuStreamSynchronize", self.handle)


def word(value: int = 0) -> np.ndarray:
    return np.array([value], np.uint32)


@pytest.mark.parametrize("order", ["eager", "lazy", "shuffled"])
def test_what_is_on_one_stream_is_done_in_its_order(order: str) -> None:
    for seed in SEEDS:
        device = gpu(f"seed={seed} streams={order}")
        queue, place = Queue.of(device), device.allocate(4)
        queue.upload(place, word(5))
        queue.launch(DOUBLE, place)
        queue.launch(DOUBLE, place)
        result = word()
        queue.download(result.ctypes.data, place, 4)
        assert result[0] == 20
        device.free(place)


def two_streams(seed: int, waits: bool) -> int:
    device = gpu(f"seed={seed}")
    first, second, place = Queue.of(device), Queue.of(device), device.allocate(4)
    first.upload(place, word(5))
    if waits:
        second.wait(first.record())
    second.launch(DOUBLE, place)
    second.finish()
    first.finish()
    result = word()
    device.download(place, result)
    device.free(place)
    return int(result[0])


def test_a_stream_that_does_not_wait_for_another_is_sometimes_before_it() -> None:
    assert {two_streams(seed, True) for seed in SEEDS} == {10}
    assert len({two_streams(seed, False) for seed in SEEDS}) > 1


def test_the_host_that_does_not_wait_reads_too_early() -> None:
    early = set()
    for seed in SEEDS:
        device = gpu(f"seed={seed}")
        queue, place, pinned = Queue.of(device), device.allocate(4), ctypes.c_void_p()
        device.do("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(4), 0)
        result = np.ctypeslib.as_array(ctypes.cast(pinned, ctypes.POINTER(ctypes.c_uint32)), (1,))
        result[0] = 99
        queue.upload(place, word(5))
        queue.download(pinned.value or 0, place, 4)
        early.add(int(result[0]))
        queue.finish()
        assert result[0] == 5
        device.do("cuMemFreeHost", pinned)
        device.free(place)
    assert early == {5, 99}


def test_memory_of_the_caller_is_taken_when_a_copy_begins_and_page_locked_memory_when_it_is_done() -> None:
    found: dict[bool, set[int]] = {False: set(), True: set()}
    for seed in SEEDS:
        for locked in (False, True):
            device = gpu(f"seed={seed}")
            queue, place, given, result = Queue.of(device), device.allocate(4), word(5), word()
            if locked:
                device.do("cuMemHostRegister_v2", ctypes.c_void_p(given.ctypes.data), ctypes.c_size_t(4), 1)
            queue.upload(place, given)
            given[0] = 6
            queue.download(result.ctypes.data, place, 4)  # which waits: it is not page-locked
            found[locked].add(int(result[0]))
            if locked:
                device.do("cuMemHostUnregister", ctypes.c_void_p(given.ctypes.data))
            device.free(place)
    assert found == {False: {5}, True: {5, 6}}


def test_an_event_is_seen_to_happen() -> None:
    device = gpu("streams=lazy")
    queue, place = Queue.of(device), device.allocate(4)
    queue.upload(place, word(5))
    event = queue.record()
    with pytest.raises(Refused):
        device.do("cuEventQuery", event)
    device.do("cuEventSynchronize", event)
    device.do("cuEventQuery", event)
    device.free(place)


def test_a_stream_waits_for_an_event_as_it_was_recorded_last() -> None:
    for seed in SEEDS:
        device = gpu(f"seed={seed}")
        first, second, place = Queue.of(device), Queue.of(device), device.allocate(8)
        first.upload(place, word(5))
        event = first.record()
        first.launch(DOUBLE, place)
        device.do("cuEventRecord", event, first.handle)
        second.wait(event)
        second.launch(TO_NEXT, place)
        second.finish()
        result = np.zeros(2, np.uint32)
        device.download(place, result)
        assert result.tolist() == [10, 10]
        first.finish()
        device.free(place)


@pytest.mark.parametrize("order", ["eager", "lazy", "shuffled"])
def test_what_a_kernel_must_not_do_is_told_at_the_latest_when_its_stream_is_waited_for(order: str) -> None:
    device = gpu(f"streams={order}")
    queue, place = Queue.of(device), device.allocate(4)

    def beyond() -> None:
        queue.launch(kernel("st.global.u32 [%rd0+4], 1;"), place)
        queue.finish()

    with pytest.raises(Refused, match="0 bytes after the end of the memory of argument 1"):
        beyond()
    queue.finish()
    device.free(place)


def test_memory_that_is_freed_while_a_copy_waits_is_refused() -> None:
    device = gpu("streams=lazy")
    queue, place = Queue.of(device), device.allocate(4)
    queue.upload(place, word(5))
    device.free(place)
    with pytest.raises(Refused, match="beyond what was allocated"):
        queue.finish()


def test_a_copy_beyond_an_allocation_is_refused_at_once() -> None:
    device = gpu()
    place = device.allocate(4)
    with pytest.raises(Refused, match="a copy of 8 bytes"):
        device.upload(place, np.zeros(2, np.uint32))
    device.free(place)
    with pytest.raises(Refused, match="is no memory of a device"):
        device.free(place)
