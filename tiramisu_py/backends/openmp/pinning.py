"""The C code for ``compile(pin=...)``: threads bound to CPUs while a function runs."""

from __future__ import annotations

import cgen

from tiramisu_py.backends.c.part import Agreement, HostParts
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.ir import For, LoopFunction
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.machine.pins import Pin

Lines = list[cgen.Generable]
RUNTIME = "tm_threads.h"


def runtime(function: LoopFunction) -> tuple[RuntimeFile, ...]:
    """The header that a function with pinned threads includes."""
    return () if function.options.pin is None else packaged("c", RUNTIME)


def pinned(function: LoopFunction, name: str, parts: HostParts) -> Lines:
    """Lines after the checks of a function, which pin its threads until it ends."""
    if function.options.pin is None:
        return []
    failed = f'{name}_fail(tm_pins_held.fault, "{function.title}: %s", tm_pins_held.words)'
    pin = f"tm_pin(&tm_pins_held, &{_pinning(function.options.pin, parts.agreement)}, {_is_parallel(function)})"
    return [cgen.Statement("TM_PINNED tm_pins tm_pins_held = {0}"), parts.fails(pin, failed)]


def _is_parallel(function: LoopFunction) -> str:
    parallel = any(isinstance(node, For) and isinstance(node.tag, Parallel) for node in walk(function.body))
    return "true" if parallel else "false"


def _pinning(pin: Pin, agreement: Agreement | None) -> str:
    fields = [f".policy = TM_PIN_{pin.policy.upper()}"]
    if pin.policy == "list":
        listed = ", ".join(map(str, pin.cpus))
        fields += [f".cpus = (const int[]){{{listed}}}", f".count = {len(pin.cpus)}"]
    if pin.policy == "node" and pin.node is not None:
        fields.append(f".node = {pin.node}")
    if pin.takes_turns:
        assert agreement is not None, "one caller takes no turns"
        fields += [".node = -1", f".turn = {agreement.turn}", f".turns = {agreement.turns}"]
    return f"(const tm_pinning){{{', '.join(fields)}}}"
