"""Sizes and strides that C functions over whole arrays take in narrow types: conditions under which they fit."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param
from tiramisu_py.algorithm.traversal import iterators, walk
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.algorithm.words.stages import StageCall, StrideParameter
from tiramisu_py.dependence.footprints import steps_of
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage


def narrow_arguments(program: Program) -> tuple[Precondition, ...]:
    """The conditions on sizes under which the arguments of calls are what is passed: ``M <= 2147483647``."""
    found: dict[str, Precondition] = {}
    for statement in program.acting:
        if statement.is_call:
            for value, dtype, is_least in (*_sizes(program, statement), *_strides(program, statement)):
                low, high = dtype.limits
                limit, op = (low, ">=") if is_least else (high, "<=")
                if dtype.bits < 64 and any(isinstance(part, Param) for part in walk(value)):
                    condition = Binary(op, typed(value, int64), Const(int(limit), int64), bool_)
                    found[f"{value} {op} {limit}"] = (condition, f"{value} {op} {limit}")
    return tuple(found.values())


def _called(program: Program, statement: Statement) -> tuple[StageCall, Computation]:
    computation = program.algorithm.source(statement.source)
    assert isinstance(statement.body, StageCall) and isinstance(computation, Computation)
    return statement.body, computation


def _sizes(program: Program, statement: Statement) -> Iterator[tuple[Expr, DType, bool]]:
    """The largest and the least value of each integer argument without a type of its own."""
    call, computation = _called(program, statement)
    for e, dtype in call.scalars:
        if not e.dtype.weak or not dtype.is_integer:
            continue
        if not iterators(e):
            yield e, dtype, False
            yield from [] if isinstance(e, Param) else [(e, dtype, True)]  # a size is at least 0
            continue
        domain = computation.domain.intersect_params(program.context)
        form = Affine(domain.get_space()).single(e)
        values = domain.apply(sets.graph(sets.function(domain.get_space(), None, [form])))
        yield _of_params(program, sets.largest(values, 0)), dtype, False
        yield _of_params(program, sets.smallest_coordinate(values, 0)), dtype, True


def _of_params(program: Program, form: isl.PwAff) -> Expr:
    whole = form.coalesce()
    single = whole.get_pieces()[0][1].to_pw_aff() if whole.n_piece() == 1 else sets.zero_elsewhere(whole)
    return simplified(of_params(single, program.context))


def _strides(program: Program, statement: Statement) -> Iterator[tuple[Expr, DType, bool]]:
    """The largest value of each stride."""
    call, computation = _called(program, statement)
    stage = computation.stage
    assert stage is not None
    given: dict[str, tuple[Storage, tuple[str, ...]]] = {}
    for (name, of, access), part in zip(call.arrays, stage.parts, strict=True):
        if not of.is_stored:
            given[name] = program.storage_for(statement, access.source), part.varying
    own = ("",) * stage.each + computation.iterators[stage.each :]
    for name, _ in call.stage.stored:
        given[name] = program.storages[statement.memory.target], own
    taken = (of for _, of in call.stage.parameters if isinstance(of, StrideParameter))
    for stride in taken:
        storage, varying = given[stride.array]
        position = [k for k, iterator in enumerate(varying) if iterator][stride.dimension]
        yield _distance(program, storage, steps_of(program, storage, position) or ()), stride.dtype, False


def _distance(program: Program, storage: Storage, steps: tuple[int, ...]) -> Expr:
    """The distance in memory of two elements that are `steps` apart."""
    buffer, found, sizes = program.buffers[storage.buffer], list[tuple[int, Expr]](), list[Expr]()
    size: Expr = arithmetic.number(1)
    for extent in reversed(buffer.extents):
        sizes.insert(0, size)
        size = simplified(Binary("*", size, typed(extent, int64), int64))
    for step, each in zip(steps, buffer.strides or sizes, strict=True):
        found.append((step, typed(each, int64)))
    return simplified(arithmetic.total(0, found))
