"""The keys of a measurement: a text, a machine, a compiler. What has equal keys need not be measured again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.function.saving.algorithms import declared_values
from tiramisu_py.function.saving.plain import plain
from tiramisu_py.program.command import Command
from tiramisu_py.program.loops import GpuBlock
from tiramisu_py.program.program import Program
from tiramisu_py.toolchain.compilers.c_compiler import known_toolchain
from tiramisu_py.toolchain.compilers.cache import PROCEDURE, Cache, digest
from tiramisu_py.toolchain.compilers.library import target_flags
from tiramisu_py.toolchain.compilers.processor import host_name, resolve_processor, this_machine
from tiramisu_py.toolchain.gpu.available_gpus import as_device
from tiramisu_py.toolchain.gpu.runtime import runtime_for
from tiramisu_py.toolchain.machine.processor_caches import caches
from tiramisu_py.toolchain.machine.topology import allowed_cpus

#: Environment variables that change how long a kernel takes.
_THREADING = (
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE", "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY",
)  # fmt: skip


def program_key(algorithm: Algorithm, commands: Iterable[Command]) -> str:
    """The key of a scheduled program, equal in all processes: what `Function.save` writes, without the places in the
    user's script. Raises `SavedError`.
    """
    return digest([declared_values(algorithm), [plain(command) for command in commands]])


def text_key(sources: Mapping[str, str]) -> str:
    """The key of an emitted program: of all that is compiled. Another version of this package may emit another text."""
    return digest(["text", dict(sources)])


def machine_description(device: str | None) -> dict[str, Any]:
    """This machine: its processor, and the one that stands for it, if any; the cpus that this process may use, its
    caches, and the GPU of a program that uses the `device`.
    """
    found = {"processor": this_machine(), "cpus": len(allowed_cpus()), "caches": asdict(caches())}
    if host_name() is not None:
        found["host"] = host_name()
    return found if device is None else {**found, "gpu": _gpu_name(device)}


def compiler_description(cache: Cache, options: Mapping[str, Any]) -> dict[str, Any]:
    """The C compiler, its flags, and all that a user says about compilation. Raises `ToolchainError`."""
    toolchain = known_toolchain(cache, options.get("compiler"))
    processor = resolve_processor(cache, toolchain, options.get("target"))
    return {
        "compiler": toolchain.identity,
        "flags": [*target_flags(processor, options.get("fast", ())), *toolchain.openmp],
        "procedure": PROCEDURE,
        "options": {name: repr(given) for name, given in sorted(options.items())},
        "environment": {name: os.environ[name] for name in _THREADING if name in os.environ},
    }


def device_of(program: Program, options: Mapping[str, Any]) -> str | None:
    """The device that a program runs on beside the host; None if it uses none."""
    uses = any(isinstance(loop.tag, GpuBlock) for loop in program.loops.values())
    return str(options.get("device") or "gpu") if uses else None


def _gpu_name(device: str) -> str:
    on = as_device(device)
    return device if on.simulated else runtime_for(on).name(0)
