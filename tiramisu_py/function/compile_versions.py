"""compile_versions(): a function with a schedule for each of several processors, in one library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import islpy as isl

from tiramisu_py.errors import ArgumentError, TiramisuError, UnsupportedError
from tiramisu_py.function.function import Function
from tiramisu_py.function.saving.algorithms import declared_values
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument
from tiramisu_py.program.machine.pins import as_pin
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain import Kernel, Target, compile_versions_of, processor_for, target


@dataclass(frozen=True)
class _Made:
    """A version: its processor, its function, and that lowered for the processor."""

    processor: str
    scheduled: Function
    lowered: LoopFunction


@own_call
def compile_versions(
    make: Callable[[Target], Function],
    targets: Sequence[str],
    *,
    compiler: str | None = None,
    fast: Sequence[str] = (),
    sanitize: Sequence[str] = (),
    threads: int | None = None,
    verify_values: bool = True,
    pin: str | Sequence[int] | None = None,
) -> Kernel:
    """Compile a version of a function for each of several processors; the library runs the best one that fits.

    ::

        def scheduled(cpu):                                 # cpu = tm.target("x86-64-v3"), ...
            f, down, across = blur()
            across.vectorize(c, cpu.lanes(tm.float32))
            across.unroll_and_jam(r, 8 if cpu.vector_registers == 32 else 4)
            return f

        kernel = tm.compile_versions(scheduled, ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
        kernel.version                                      # "x86-64-v4", on a processor with AVX-512
        kernel.export("blur")                               # one library, one C function for all of them

    ``make(cpu)`` declares and schedules the function for a processor, as `target` describes it. Each version is proven
    and compiled for itself, with the flags of its processor. All have the same algorithm and arguments, so that the C
    function and its callers are the same everywhere. The first call asks the processor for its instruction sets: the
    version that runs is one that they allow, before others that need less of them, and else before those that come
    later in `targets`. In C, ``blur_version()`` names it, and the environment variable TIRAMISU_VERSION names a version
    that no better one replaces; in Python, ``kernel.using("x86-64-v2")`` is the kernel of another version.

    Processors are of one kind, x86 or 64-bit Arm; the options are those of `Function.compile`. Raises what that raises,
    with the processor in a note; `ArgumentError` for versions of another algorithm or with other arguments, and for
    processors with the same instruction sets; and `UnsupportedError` for functions on GPUs or ranks.
    """
    names = _checked(make, targets)
    made = [_made(make, name, compiler) for name in names]
    for other in made[1:]:
        _require_same(made[0], other)
    placed = as_pin(pin, False)
    functions = {
        each.processor: replace(each.lowered, options=replace(each.lowered.options, pin=placed)) for each in made
    }
    return compile_versions_of(
        made[0].scheduled.name, functions, made[0].scheduled.algorithm, compiler=compiler, fast=fast,
        sanitize=sanitize, threads=threads, verify_values=verify_values,
    )  # fmt: skip


def _checked(make: object, targets: object) -> list[str]:
    """The names of the processors; raises `ArgumentError`."""
    if not callable(make):
        raise ArgumentError(f"make is {make!r:.60}: give a function that takes a processor and schedules a function")
    if isinstance(targets, str) or not isinstance(targets, Sequence):
        raise ArgumentError(f'targets={targets!r:.60}: give the names of processors, ["x86-64-v2", "x86-64-v3"]')
    names = list(targets)
    for name in names:
        if not isinstance(name, str) or name == "native":
            raise ArgumentError(f"targets has {name!r}: give a processor by its name, such as 'x86-64-v3' or 'znver3'")
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"targets={names!r}: give at least one processor, and each once")
    return names


def _made(make: Callable[[Target], Function], name: str, compiler: str | None) -> _Made:
    """The version for a processor, proven."""
    processor = processor_for(name, compiler)
    try:
        f = make(target(name, compiler=compiler))
        if not isinstance(f, Function):
            raise ArgumentError(f"make returned {f!r:.60} for {name}: let it return a scheduled tm.Function")
        f = f.copy()  # make may change the same function again for the next processor
        return _Made(name, f, _on_the_host(f.show("lowered", processor.vector_bytes)))
    except TiramisuError as error:
        error.add_note(f"in the version for {name}")
        raise


def _on_the_host(function: LoopFunction) -> LoopFunction:
    """The function, if it runs on the host alone and takes no packed operands; raises `UnsupportedError`."""
    if function.grid is not None or function.gpus.kernels or function.gpus.devices:
        what = "ranks" if function.grid is not None else "GPUs"
        raise UnsupportedError(
            f"{function.name} uses {what}, and versions for processors are for functions on the host alone: compile it "
            "for one processor, with compile(target=)"
        )
    if function.companions.packs:
        kept = ", ".join(dict.fromkeys(operand for pack in function.companions.packs for operand in pack.outputs))
        raise UnsupportedError(
            f"{function.name} keeps {kept} between calls, in a layout of its schedule, and each version has its own: "
            "leave keep() out, or compile it for one processor, with compile(target=)"
        )
    return function


def _require_same(first: _Made, other: _Made) -> None:
    """Refuse a version that is not the same function to its callers. Raises `ArgumentError`."""
    what = _difference(first, other)
    if what:
        raise ArgumentError(
            f"the versions of {first.scheduled.name} for {first.processor} and {other.processor} differ in {what}: let "
            "make change the schedule alone, so that callers see one function"
        )


def _difference(first: _Made, other: _Made) -> str:
    """The first thing in which two versions differ for their callers; empty if nothing."""
    one, two = (declared_values(each.scheduled.algorithm) for each in (first, other))
    if one["name"] != two["name"]:
        return f"their names, {one['name']} and {two['name']}"
    for part, word in (("params", "the parameters"), ("assume", "what they assume"), ("outputs", "the outputs")):
        if one[part] != two[part]:
            return word
    for part, word in (("inputs", "the input"), ("computations", "the computation")):
        names = dict.fromkeys(each["name"] for each in (*one[part], *two[part]))
        own = [{each["name"]: each for each in data[part]} for data in (one, two)]
        for name in names:
            if own[0].get(name) != own[1].get(name):
                return f"{word} {name}"
    return _difference_in_arguments(first, other)


def _difference_in_arguments(first: _Made, other: _Made) -> str:
    a, b = first.lowered, other.lowered
    if [_described(each) for each in a.arguments] != [_described(each) for each in b.arguments]:
        return "their arguments (store_in changes them)"
    if a.outputs != b.outputs or any(not _kept_alike(first, other, name) for name in first.scheduled.algorithm.outputs):
        return "where they keep their outputs (store_in)"
    conditions = [[(test.key(), words) for test, words in each.preconditions] for each in (a, b)]
    return "" if conditions[0] == conditions[1] else "the conditions on their sizes"


def _described(argument: ArrayArgument | ScalarArgument) -> tuple[Any, ...]:
    """The description of an argument for callers."""
    if isinstance(argument, ScalarArgument):
        return argument.name, argument.dtype.name
    sizes = tuple(extent.key() for extent in (*argument.passed_extents, *argument.extents, *(argument.strides or ())))
    return argument.name, argument.dtype.name, sizes, argument.is_input, argument.is_output, argument.covered


def _kept_alike(first: _Made, other: _Made, output: str) -> bool:
    """Whether the elements of an output are at the same places in both versions."""
    context = isl.Context()
    maps = [isl.MultiAff(str(each.scheduled.program.storages[output].index), context) for each in (first, other)]
    return bool(maps[0].plain_is_equal(maps[1]))
