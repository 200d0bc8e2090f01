"""The code that commands ask for can be emitted: prefetches, repeated loops, versions, products, arrays.

Prefetches are of sources that a statement still reads, along loops that it still has.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.kernels import device_count
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Ahead, Role, Statement
from tiramisu_py.proof import tensor_loops, thread_shares, unrolling
from tiramisu_py.proof.violations.findings import Finding, Key, fault


def findings(flow: Flow, _: Key | None = None) -> Iterator[Finding]:
    """Every request that cannot be emitted."""
    yield from _prefetch_faults(flow)
    yield from thread_shares.faults(flow)
    yield from unrolling.faults(flow.accesses.program)
    yield from tensor_loops.faults(flow)
    yield from _versions(flow.accesses.program)
    yield from _strides(flow.accesses.program)
    yield from _products(flow.accesses.program)
    yield from _strided_stores(flow.accesses.program)
    yield from _messages(flow.accesses.program)


def _messages(program: Program) -> Iterator[Finding]:
    """Messages of several values at once: their elements are in an array for each component."""
    for statement in program.statements.values():
        if statement.link.message is None:
            continue
        source = program.algorithm.source(statement.source)
        if isinstance(source.dtype, TupleType):
            message = f"{statement.handle} is a message of {source.name}, which has several values, {source.dtype}"
            repair = f"let a computation of one of them, such as {source.name}[..][0], be read on other ranks"
            yield fault("reach", f"several values {source.name}", statement, message, repair)


def _products(program: Program) -> Iterator[Finding]:
    """Arrays with extents that are products, of a function on ranks: these have parts of dimensions."""
    arrays = [buffer for buffer in program.buffers.values() if buffer.argument and buffer.passed is not None]
    if not arrays or not program.runs_on_ranks:
        return
    one, shapes = arrays[0], [f"[{', '.join(map(str, e))}]" for e in (arrays[0].passed_extents, arrays[0].extents)]
    message = (
        f"{program.algorithm.name} uses ranks, and {one.name} is declared with the shape {shapes[0]}: a rank has a "
        "part of each dimension"
    )
    violation = Violation("reach", message, Witness({}), repair=f"declare {one.name} with the shape {shapes[1]}")
    yield Finding.of(Key("products", ()), violation)


def _strides(program: Program) -> Iterator[Finding]:
    """Arrays with strides of a function that does not run on the host alone, or that no caller passes."""
    for buffer in program.buffers.values():
        if buffer.strides is not None and not buffer.argument:
            message = f"{buffer.name} has strides, but is no array of the caller any more: it is not laid out by them"
            violation = Violation("reach", message, Witness({}), repair=f"give {buffer.name} no strides=")
            yield Finding.of(Key("strides", (buffer.name,)), violation)
    ranked = program.runs_on_ranks
    strided = [buffer.name for buffer in program.buffers.values() if buffer.strides is not None]
    if not strided or not (ranked or device_count(program)):
        return
    uses, copied = ("ranks", "dealt out") if ranked else ("GPUs", "transferred")
    message = (
        f"{program.algorithm.name} uses {uses}, and {strided[0]} is declared with strides: only contiguous arrays are "
        f"{copied}"
    )
    violation = Violation("reach", message, Witness({}), repair=f"declare {strided[0]} without strides=")
    yield Finding.of(Key("strides", ()), violation)


def _strided_stores(program: Program) -> Iterator[Finding]:
    """Stores past the caches to arrays with strides, whose rows need not be aligned."""
    for statement in program.storing:
        buffer = program.buffers[program.storages[statement.memory.target].buffer]
        if statement.memory.nontemporal is not None and buffer.strides is not None:
            message = f"{statement.handle}.store_nontemporal() stores whole rows, and {buffer.name} has strides"
            yield fault("reach", "past caches", statement, message, f"leave {statement.handle}.store_nontemporal() out")


def _versions(program: Program) -> Iterator[Finding]:
    """Versions for constant sizes of a function that does not run on the host alone."""
    ranked = program.runs_on_ranks
    if not program.calls.specialized or not (ranked or device_count(program)):
        return
    name = program.algorithm.name
    uses = "ranks" if ranked else "GPUs"
    message = f"{name} uses {uses}, and has versions for some calls: these are for functions of the host alone"
    violation = Violation(
        "reach", message, Witness({}), repair=f"leave {name}.specialize({program.calls.specialized[0]}) out"
    )
    yield Finding.of(Key("versions", ()), violation)


def _prefetch_faults(flow: Flow) -> Iterator[Finding]:
    """Prefetches of what a statement no longer reads, or along a loop that it no longer has."""
    program = flow.accesses.program
    for statement in program.acting:
        for ahead in statement.memory.prefetches:
            adds = statement.role is Role.UPDATE and ahead.source == statement.source
            if not adds and ahead.source not in flow.accesses.sources(statement):
                yield _gone(statement, ahead, f"{statement.handle} no longer reads {ahead.source}", "leave it out")
            elif all(program.loops[loop].name != ahead.loop for loop in statement.loops):
                what = f"the loop {ahead.loop} is no longer there ({nest(program, statement)})"
                yield _gone(statement, ahead, what, "give it after all changes of the loops, along one of them")


def _gone(statement: Statement, ahead: Ahead, what: str, repair: str) -> Finding:
    command = f"{statement.handle}.prefetch({ahead.source}, {ahead.loop})"
    key = f"prefetch {ahead.source} {ahead.loop}"
    return fault("reach", key, statement, f"{command}: {what}", f"{command}: {repair}")
