"""Threads bound to cpus while a function runs: what is emitted for ``compile(pin=...)``."""

from __future__ import annotations

from importlib import resources

import cgen

from tiramisu_py.ir import For, LoopFunction
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.pins import Pin

Lines = list[cgen.Generable]
RUNTIME = "tm_threads.h"
#: What tells the ranks of one machine from each other.
RANKS_RUNTIME = "tm_mpi_near.h"


def runtime(function: LoopFunction) -> dict[str, str]:
    """The headers that a function with pinned threads includes: text by name."""
    if function.pin is None:
        return {}
    found = {RUNTIME: _text("tiramisu_py.backends.c", RUNTIME)}
    if function.pin.takes_turns:
        folder = resources.files("tiramisu_py.backends.mpi").joinpath("runtime")
        found[RANKS_RUNTIME] = folder.joinpath(RANKS_RUNTIME).read_text(encoding="utf-8")
    return found


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def pinned(function: LoopFunction, name: str) -> Lines:
    """What comes after the checks of a function: its threads are pinned until it ends."""
    if function.pin is None:
        return []
    failed = f'{name}_fail(tm_pins_held.fault, "{name}: %s", tm_pins_held.words)'
    lines: Lines = [cgen.Statement("TM_PINNED tm_pins tm_pins_held = {0}")]
    pin = f"tm_pin(&tm_pins_held, &{_pinning(function.pin)}, {_is_parallel(function)})"
    if function.grid is None:
        return [*lines, cgen.If(cgen.Line(pin), cgen.Statement(f"return {failed}"))]
    if function.pin.takes_turns:
        lines.append(cgen.Statement("const tm_mpi_near tm_near = tm_mpi_find_near(&mpi)"))
    return [*lines, cgen.If(cgen.Line(f"!wrong && !idle && {pin}"), cgen.Statement(f"wrong = {failed}"))]


def _is_parallel(function: LoopFunction) -> str:
    parallel = any(isinstance(node, For) and isinstance(node.tag, Parallel) for node in walk(function.body))
    return "true" if parallel else "false"


def _pinning(pin: Pin) -> str:
    fields = [f".policy = TM_PIN_{pin.policy.upper()}"]
    if pin.policy == "list":
        listed = ", ".join(map(str, pin.cpus))
        fields += [f".cpus = (const int[]){{{listed}}}", f".count = {len(pin.cpus)}"]
    if pin.policy == "node" and pin.node is not None:
        fields.append(f".node = {pin.node}")
    if pin.takes_turns:
        fields += [".node = -1", ".turn = tm_near.number", ".turns = tm_near.ranks"]
    return f"(const tm_pinning){{{', '.join(fields)}}}"
