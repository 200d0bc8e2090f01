"""Launches as CUDA graphs (tm_gpu_graphs.h), over the simulator: phases, events, updates, what is not captured."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.backends.cuda.simulation import HOST, Box, Call, checked, configure, long, runtime, simulator_library

SIZE, STREAMS, BUFFERS = 200, 3, 4


def graphed() -> Call:
    """A call whose launches become graphs."""
    gpu = Call()
    checked(runtime().tm_gpu_graphs(gpu.handle))
    return gpu


def launches() -> tuple[int, int]:
    """The kernels and graphs of the last call."""
    counts = (ctypes.c_int64 * 2)()
    runtime().tm_gpu_launches(counts)
    return counts[0], counts[1]


@dataclass
class Random:
    """A random sequence of operations on buffers of a device, with the values that NumPy gives them one by one.

    Each is ordered by events behind what it needs, but for those from number `free` on.
    """

    gpu: Call
    rng: np.random.Generator
    free: int | None = None
    count: int = 0
    last: dict[int, list[ctypes.c_void_p]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buffers = [self.gpu.allocate(4 * SIZE) for _ in range(BUFFERS)]
        self.first = [self.rng.integers(0, 9, SIZE).astype(np.float32) for _ in range(BUFFERS)]
        self.values = list(self.first)
        self.host, self.pinned = np.empty((2, SIZE), np.float32), self.gpu.pinned((2, SIZE))
        for buffer, values in zip(self.buffers, self.first, strict=True):
            self.gpu.send(buffer, values, 0)
        self.done(0, *range(BUFFERS))

    def stream(self, *buffers: int) -> int:
        """A stream that has waited for the last use of the buffers; buffers from -1 down are the host's."""
        stream = int(self.rng.integers(STREAMS))
        self.count += 1
        for buffer in buffers if self.free is None or self.count < self.free else ():
            for event in self.last.get(buffer, []):
                self.gpu.wait(event, stream)
        return stream

    def done(self, stream: int, *buffers: int) -> None:
        """What was put on a stream last used the buffers."""
        (event,) = self.gpu.events(1)
        self.gpu.record(stream, event)
        for buffer in buffers:
            self.last[buffer] = [event]

    def step(self) -> None:
        """One more operation."""
        kind, (a, b), h = self.rng.integers(10), self.rng.permutation(BUFFERS)[:2], int(self.rng.integers(2))
        place, values = self.buffers[a], self.values
        if kind < 5:
            stream = self.stream(a)
            self.gpu.launch("add_one", (4,), long(SIZE), place, stream=stream)
            values[a] = values[a] + 1
            self.done(stream, a)
        elif kind < 7:
            stream = self.stream(a, b)
            self.gpu.box(self.buffers[b], 0, place, 0, Box(4 * SIZE, 1, 1), stream)
            values[b] = values[a]
            self.done(stream, a, b)
        elif kind == 7:
            stream = self.stream(a)
            checked(
                runtime().tm_gpu_zero(self.gpu.handle, 0, ctypes.c_void_p(place), ctypes.c_size_t(4 * SIZE), stream)
            )
            values[a] = 0 * values[a]
            self.done(stream, a)
        elif kind == 8:
            for event in self.last.get(-1 - h, []):
                self.gpu.wait(event)
            self.pinned[h] = self.rng.integers(0, 9, SIZE)
            stream = self.stream(a)
            self.gpu.send(place, self.pinned[h], stream)
            values[a] = self.pinned[h].copy()
            self.done(stream, a, -1 - h)
        else:
            to = self.host if self.rng.integers(2) else self.pinned
            stream = self.stream(a, -1 - h)
            self.gpu.fetch(to[h], place, stream)
            self.done(stream, a, -1 - h)
            if self.rng.integers(2):
                self.gpu.wait(self.last[a][0])
                assert np.array_equal(to[h], values[a]) or self.free is not None

    def is_right(self) -> bool:
        """Whether all buffers are as NumPy has them."""
        found = []
        for a in range(BUFFERS):
            for event in self.last[a]:
                self.gpu.wait(event)
            found.append(self.gpu.back(self.buffers[a], self.values[a]))
        return all(np.array_equal(one, other) for one, other in zip(found, self.values, strict=True))


def is_right(seed: int, free: int | None = None, steps: int = 40) -> bool:
    """Whether a random program with graphs gives NumPy's values."""
    with graphed() as gpu:
        program = Random(gpu, np.random.default_rng(seed), free)
        for _ in range(steps):
            program.step()
        return program.is_right()


@pytest.mark.parametrize("timing", ["eager", "lazy", "shuffled", "threads"])
def test_random_programs_give_the_values_of_numpy(timing: str) -> None:
    for seed in range(30 if timing != "threads" else 4):
        configure(f"seed={seed} timing={timing} pools={int(timing != 'threads' and seed % 2)}")
        assert is_right(seed), seed
    configure()


def test_an_order_that_a_graph_lacks_is_found() -> None:
    wrong = 0
    for seed in range(60):
        configure(f"seed={seed} timing={'lazy' if seed % 2 else 'shuffled'}")
        wrong += not is_right(seed, free=15)
    configure()
    assert wrong >= 8


def test_calls_update_the_graph_of_the_one_before_with_their_addresses_and_sizes() -> None:
    configure("pools=1")
    for count, kernels in [(300, 3), (100, 3), (300, 5), (64, 1)]:
        values = np.arange(count, dtype=np.float32)
        with graphed() as gpu:
            place = gpu.to(values)
            for _ in range(kernels):
                gpu.launch("add_one", (-(-count // 64),), long(count), place, stream=0)
            (event,) = gpu.events(1)
            gpu.record(0, event)
            gpu.wait(event)
            assert np.array_equal(gpu.back(place, values), values + kernels)
        assert launches() == (kernels, 1) and launches() == (0, 0)  # told once, so that no call has those of another
    checked(runtime().tm_gpu_trim(str(simulator_library()).encode()))
    configure()


def test_a_call_that_fails_while_it_is_captured_leaves_the_next_one_right() -> None:
    with pytest.raises(ZeroDivisionError), graphed() as gpu:
        gpu.launch("add_one", (4,), long(200), gpu.allocate(800), stream=0)
        gpu.launch("add_one", (4,), long(200), gpu.allocate(800), stream=1)
        _ = 1 // 0
    assert is_right(0)


def test_memory_that_captured_work_uses_is_not_freed() -> None:
    configure("pools=0")
    with graphed() as gpu:
        place = gpu.allocate(800)
        gpu.launch("add_one", (4,), long(200), place, stream=0)
        assert runtime().tm_gpu_free(gpu.handle, 0, ctypes.c_void_p(place)) != 0
        assert "kernel add_one" in runtime().tm_gpu_error().decode()
    configure()


def test_copies_with_the_host_are_not_captured() -> None:
    values = np.arange(200, dtype=np.float32)
    with graphed() as gpu:
        place = gpu.allocate(800)
        for _ in range(3):
            gpu.send(place, values, 0)
            gpu.launch("add_one", (4,), long(200), place, stream=0)
            gpu.box(values.ctypes.data, HOST, place, 0, Box(800, 1, 1), 0, 1)
    assert np.array_equal(values, np.arange(200) + 3) and launches() == (3, 3)
