"""The performance of a machine in a few numbers: measured for the host, published for a GPU.

The speed of this machine's cores is measured with two small kernels: a multiply-add loop, and a copy.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from tiramisu_py import Expr, Function, float32, iters, params
from tiramisu_py.errors import ArgumentError, TiramisuError
from tiramisu_py.public_calls import own_class
from tiramisu_py.queries import Caches, Device, runtime_for
from tiramisu_py.queries import caches as described
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.storage_rates import Storage

#: Multiply-adds for each element of a loop that stays in the cache of a core.
DEPTH, ELEMENTS = 32, 2**14
#: Bytes that are copied: more than caches hold.
COPIED = 2**27
ROUNDS = 5


def multiplied_and_added() -> float:
    """Operations a second of one core: a polynomial of degree 32 in vectors, two operations for each coefficient."""
    (N,), (i,) = params("N"), iters("i")
    f = Function("polynomial", params=[N])
    x = f.input("x", float32, [N])
    value: Expr = x[i] * 0.5 + 0.25
    for _ in range(DEPTH - 1):
        value = value * x[i] + 0.25
    y = f.computation("y", {i: N}, value)
    f.outputs(y)
    y.vectorize(i, 32)
    kernel = f.compile(threads=1, fast=("contract",))
    given = np.linspace(0, 0.5, ELEMENTS, dtype=np.float32)
    out = np.empty_like(given)
    return 2 * DEPTH * ELEMENTS / _best(lambda: kernel(given, y=out), 40 * ROUNDS)


def copied_bytes(threads: int) -> float:
    """Bytes a second that all threads together read and write, in a copy larger than the caches."""
    (N,), (i, j) = params("N"), iters("i j")
    f = Function("copy", params=[N])
    x = f.input("x", float32, [N, 1024])
    y = f.computation("y", {i: N, j: 1024}, x[i, j])
    f.outputs(y)
    y.parallelize(i)
    y.vectorize(j, 16)
    kernel = f.compile(threads=threads)
    given = np.ones((COPIED // 8 // 1024, 1024), dtype=np.float32)
    out = np.zeros_like(given)
    return COPIED / _best(lambda: kernel(given, y=out), ROUNDS)


def _best(run: Callable[[], object], rounds: int) -> float:
    """The minimum time of some calls, in seconds, after a warm-up call."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@own_class
@dataclass(frozen=True)
class MemoryLevel:
    """A level of memory: its `bytes` for one core, or for all cores together if they share it (`shared`).

    `read` and `copy` are bytes a second of all cores together, in a loop that reads and in one that reads and writes,
    each byte counted once; `core_read` and `core_copy` are those of one core alone. 0 means not measured. Raises
    `ArgumentError` for what is no size or rate.
    """

    name: str
    bytes: int
    shared: bool = False
    read: float = 0.0
    copy: float = 0.0
    core_read: float = 0.0
    core_copy: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError(f"tm.MemoryLevel: name is {self.name!r}: give a name such as 'L1'")
        for field in ("bytes", "read", "copy", "core_read", "core_copy"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ArgumentError(f"tm.MemoryLevel {self.name}: {field} is {value!r}: give a number")
        if self.bytes < 1 or self.bytes != int(self.bytes):
            raise ArgumentError(f"tm.MemoryLevel {self.name}: bytes is {self.bytes!r}: give its size in bytes")

    @property
    def bandwidth(self) -> float:
        """The most bytes a second of all cores: the faster of its two loops; 0 if neither was measured."""
        return max(self.read, self.copy)


def levels_here(found: Caches | None = None) -> tuple[MemoryLevel, ...]:
    """The caches of this machine, from the nearest one on, by their sizes alone."""
    sizes = found or described()
    return (
        MemoryLevel("L1", sizes.first),
        MemoryLevel("L2", sizes.second),
        *([MemoryLevel("L3", sizes.last, shared=True)] if sizes.last > sizes.second else []),
    )


def level_of(given: Any) -> MemoryLevel:
    """A level from plain data; raises `ArgumentError` for other data."""
    names = {field.name for field in fields(MemoryLevel)}
    if not isinstance(given, dict) or not {"name", "bytes"} <= set(given) <= names:
        raise ArgumentError(f"{given!r} is no level of memory: it has a name and bytes, and rates")
    return MemoryLevel(**given)


GIGA, TERA = 1e9, 1e12

#: Bytes a second in one direction of PCI Express with 16 lanes, by generation, and of NVLink-C2C.
#: Source: PCI-SIG, rates less the encoding; NVIDIA Grace Hopper Superchip, data sheet (900 GB/s in both directions).
PCIE = {3: 15.75 * GIGA, 4: 31.5 * GIGA, 5: 63.0 * GIGA}
C2C = 450 * GIGA

#: By name: operations a second in float32 (without tensor cores; a multiply-add is two), bytes a second of its memory,
#: and of its link to the host. Published peaks, which programs do not reach.
#: Source: NVIDIA's data sheets of the products; for GeForce its whitepapers (Turing, GA102, Ada, Blackwell).
GPUS: dict[str, tuple[float, float, float]] = {
    "T4": (8.1 * TERA, 320 * GIGA, PCIE[3]),
    "A100": (19.5 * TERA, 2039 * GIGA, PCIE[4]),  # SXM, 80 GB
    "A30": (10.3 * TERA, 933 * GIGA, PCIE[4]),
    "A10": (31.2 * TERA, 600 * GIGA, PCIE[4]),
    "A40": (37.4 * TERA, 696 * GIGA, PCIE[4]),
    "L4": (30.3 * TERA, 300 * GIGA, PCIE[4]),
    "L40": (90.5 * TERA, 864 * GIGA, PCIE[4]),
    "H100": (67.0 * TERA, 3350 * GIGA, PCIE[5]),  # SXM
    "H200": (67.0 * TERA, 4800 * GIGA, PCIE[5]),
    "GH200": (67.0 * TERA, 4000 * GIGA, C2C),  # 96 GB
    "RTX 2080": (10.1 * TERA, 448 * GIGA, PCIE[3]),
    "RTX 3090": (35.6 * TERA, 936 * GIGA, PCIE[4]),
    "RTX 4090": (82.6 * TERA, 1008 * GIGA, PCIE[4]),
    "RTX 5090": (104.8 * TERA, 1792 * GIGA, PCIE[5]),
}


@own_class
@dataclass(frozen=True)
class Machine:
    """The rates for estimating the parts of a program: operations and bytes a second, latencies in seconds.

    `core_flops` is for one core, `host_bandwidth` for all `cores`; `gpu_flops` and `gpu_bandwidth` are for one GPU, 0
    without one. `link_bandwidth` is for one direction between the host and a GPU, with `link_latency` for each copy
    and `launch_latency` for each kernel. Each rank has such a machine; messages between ranks have
    `network_bandwidth`, and `network_latency` each. `core_flops64` is for float64 (0: not measured), `levels` are
    the caches, from the nearest one on, `storage` is the disk that values are put on.

    ::

        tm.Machine(core_flops=30e9, cores=16, host_bandwidth=100e9, gpu_flops=19.5e12, gpu_bandwidth=2e12,
                   link_bandwidth=25e9)
        tm.Machine.here(gpu="A100")     # this host as measured, with that GPU by its published peaks
        tm.Machine.load("machine.json") # what `scripts/bench machine` measured, or `save` wrote

    Raises `ArgumentError` for numbers that are no rates.
    """

    core_flops: float
    cores: int
    host_bandwidth: float
    gpu_flops: float = 0.0
    gpu_bandwidth: float = 0.0
    link_bandwidth: float = 0.0
    link_latency: float = 10e-6
    launch_latency: float = 5e-6
    network_bandwidth: float = 12.5 * GIGA
    network_latency: float = 2e-6
    core_flops64: float = 0.0
    levels: tuple[MemoryLevel, ...] = ()
    storage: Storage | None = None

    def __post_init__(self) -> None:
        self._check_levels()
        if self.storage is not None and not isinstance(self.storage, Storage):
            raise ArgumentError(f"tm.Machine: storage is {self.storage!r}: give tm.Storage(write=1e9, read=1e9)")
        for field in fields(self):
            if field.name in ("levels", "storage"):
                continue
            value = getattr(self, field.name)
            optional = field.name.startswith(("gpu_", "link_")) or field.name.endswith(("_latency", "64"))
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ArgumentError(f"tm.Machine: {field.name} is {value!r}: give a number")
            if value == 0 and not optional:
                raise ArgumentError(f"tm.Machine: {field.name} is 0: give a number above 0")

    def _check_levels(self) -> None:
        if not isinstance(self.levels, tuple) or not all(isinstance(level, MemoryLevel) for level in self.levels):
            raise ArgumentError(f"tm.Machine: levels is {self.levels!r}: give a tuple of tm.MemoryLevel")
        sizes = [level.bytes for level in self.levels]
        if sizes != sorted(sizes):
            raise ArgumentError(f"tm.Machine: levels have the sizes {sizes}: give them from the nearest one on")

    @property
    def has_gpu(self) -> bool:
        """Whether it has the rates of a GPU and of the link to it."""
        return min(self.gpu_flops, self.gpu_bandwidth, self.link_bandwidth) > 0

    @classmethod
    def here(
        cls, gpu: str | None = None, *, threads: int | None = None, storage: Storage | None = None, **known: float
    ) -> Machine:
        """This machine: the host as measured (a second or so), a GPU by its published peaks.

        ::

            tm.Machine.here()                               # with its own GPU, if it has one that is known
            tm.Machine.here(gpu="H200")                     # as if it had this one
            tm.Machine.here(gpu="A100", link_bandwidth=20e9)
            tm.Machine.here(storage=tm.Storage.here("/scratch"))

        Its caches have their sizes, without rates: `scripts/bench machine` measures these. `threads` is the number of
        host threads used (default: all). Rates given in `known` replace those found.
        Raises `ArgumentError` for a GPU that is not in the table: give its numbers instead.
        """
        names = [field.name for field in fields(cls)]
        for name in known:
            if name not in names:
                raise ArgumentError(f"tm.Machine has no {name}: it has {', '.join(names)}")
        found: dict[str, Any] = {"cores": threads or len(os.sched_getaffinity(0)), **published(gpu), **known}
        if "core_flops" not in found:
            found["core_flops"] = multiplied_and_added()
        if "host_bandwidth" not in found:
            found["host_bandwidth"] = copied_bytes(int(found["cores"]))
        return cls(**{"levels": levels_here(), "storage": storage, **found})

    def save(self, path: str | Path) -> Path:
        """Write the numbers to a JSON file, which `load` reads. Raises `ArgumentError` if it cannot be written."""
        try:
            Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"{path} cannot be written: {error}") from error
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Machine:
        """The machine in a JSON file that `save` or `scripts/bench machine` wrote.

        ::

            machine = tm.Machine.load("machine.json")
            f.cost(N=1000).roofline(machine)

        Raises `ArgumentError` for a file that cannot be read, and for one that holds no machine.
        """
        try:
            given = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ArgumentError(f"{path} cannot be read as a machine: {error}") from error
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(given) - set(names)) if isinstance(given, dict) else ["no numbers by name"]
        if unknown or not {"core_flops", "cores", "host_bandwidth"} <= set(given):
            has = f"it has {', '.join(unknown)}" if unknown else "core_flops, cores or host_bandwidth is missing"
            raise ArgumentError(
                f"{path} holds no machine: {has}; write it with tm.Machine.save or scripts/bench machine"
            )
        levels = given.get("levels", [])
        if not isinstance(levels, list):
            raise ArgumentError(f"{path} holds no machine: levels is {levels!r}, and no list")
        disk = given.get("storage")
        if disk is not None and not isinstance(disk, dict):
            raise ArgumentError(f"{path} holds no machine: storage is {disk!r}, and no rates by name")
        storage = None if disk is None else Storage(**disk)
        return cls(**{**given, "levels": tuple(level_of(level) for level in levels), "storage": storage})


def published(name: str | None = None) -> dict[str, float]:
    """The numbers of a GPU by its name (default: the first one here); empty if there is no known GPU here."""
    if name is None:
        present = f" {_name_here().replace('-', ' ')} "
        matching = [known for known in GPUS if f" {known} " in present]
        name = max(matching, key=len, default=None)
        if name is None:
            return {}
    if name not in GPUS:
        raise ArgumentError(
            f"the rates of {name!r} are not known: choose one of {', '.join(GPUS)}, or give gpu_flops, "
            "gpu_bandwidth and link_bandwidth"
        )
    flops, bandwidth, link = GPUS[name]
    return {"gpu_flops": flops, "gpu_bandwidth": bandwidth, "link_bandwidth": link}


def _name_here() -> str:
    """The name of the first GPU of this machine, such as "NVIDIA H200"; empty without one."""
    try:
        runtime = runtime_for(Device(False))
        return runtime.name(0) if runtime.count() else ""
    except TiramisuError:
        return ""
