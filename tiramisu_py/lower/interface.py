"""The interface of a generated function: its arguments, and the preconditions that it checks."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import ArrayArgument, ScalarArgument
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.remainders import as_remainders
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.lower.ranks.block_copies import Arrays
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.templates import of_operands
from tiramisu_py.program.kept_operands import packed_from
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer, Memory

Argument = ArrayArgument | ScalarArgument


def output_buffers(program: Program) -> tuple[str, ...]:
    """The buffer that holds each output, in the order of the outputs."""
    return tuple(program.storages[name].buffer for name in program.algorithm.outputs)


def arguments(program: Program, arrays: Arrays | None = None) -> tuple[Argument, ...]:
    """Inputs and scalars as declared, then the outputs that are not in an input's array.

    Kept operands are in the place of the input that they are packed from. `arrays` tells which part a rank has.
    """
    found: dict[str, Argument] = {}
    outputs = output_buffers(program)
    packed = packed_from(program)
    for declared in program.algorithm.inputs.values():
        if declared.name in packed:
            found |= _kept(program, declared.name)
        elif declared.scalar:
            found[declared.name] = ScalarArgument(declared.name, declared.dtype)
        else:
            buffer = program.buffers[program.storages[declared.name].buffer]
            found.setdefault(buffer.name, _array(program, buffer, True, buffer.name in outputs, arrays))
    for name in outputs:
        found.setdefault(name, _array(program, program.buffers[name], False, True, arrays))
    return tuple(found.values())


def _kept(program: Program, source: str) -> dict[str, Argument]:
    """The operands that the caller passes in place of an input."""
    names = [program.storages[operand.storage].buffer for operand in program.calls.kept if operand.source == source]
    return {name: _array(program, program.buffers[name], True, False, None) for name in names}


def _array(program: Program, buffer: Buffer, is_input: bool, is_output: bool, arrays: Arrays | None) -> ArrayArgument:
    holding = None if arrays is None else arrays.holdings.get(buffer.name)
    extents = tuple(typed(extent, int64) for extent in buffer.extents) if holding is None else holding.extents()
    held = None if holding is None else holding.elements()
    covered = not is_output or _covered(program, buffer, held)
    dealt = () if holding is None else holding.distribution.dims
    strides = None if buffer.strides is None else tuple(typed(stride, int64) for stride in buffer.strides)
    passed = None if buffer.passed is None else tuple(typed(extent, int64) for extent in buffer.passed)
    mapped = buffer.memory is Memory.HOST_MAPPED
    return ArrayArgument(
        buffer.name, buffer.dtype, extents, is_input, is_output, covered, buffer.device, dealt, strides, passed, mapped
    )


def _covered(program: Program, buffer: Buffer, held: isl.Set | None) -> bool:
    """Whether unguarded statements store every element (that this rank holds).

    The array of a single value is never empty: a rank that does not hold it has it all the same.
    """
    parts = list[isl.Set]()
    for statement in program.storing:
        storage = program.storages[statement.memory.target]
        if storage.buffer != buffer.name or statement.guards:
            continue
        if array_name(buffer, program.stores_at(statement)) != buffer.name:
            continue
        place = program.place(statement, storage, program.value_of(statement))
        parts.append(sets.graph(sets.renamed(place, None), statement.instances).range())
    stored = sets.united(parts)
    if stored is None:
        return False
    if held is None or not buffer.extents:
        stored = stored if held is None else stored.intersect(sets.named(held, None))
        wanted = _box(program, buffer, stored.get_space())
    else:
        wanted = sets.named(held, None)
    return bool(wanted.is_subset(stored))


def _box(program: Program, buffer: Buffer, space: isl.Space) -> isl.Set:
    reader = Affine(space, {})
    box = sets.universe(space).intersect_params(program.context)
    for index, extent in zip(sets.variables(space), buffer.extents, strict=True):
        at = index.to_pw_aff()
        box = box.intersect(at.nonneg_set()).intersect(at.lt_set(reader.value(extent)))
    return box


# -- preconditions


def preconditions(program: Program) -> tuple[Precondition, ...]:
    """The context as conditions on the parameters, each with its text: ``N >= 1``."""
    pieces = sets.basic_sets(program.context.coalesce())
    if not pieces:
        return ((Const(False, bool_), "no sizes satisfy what is assumed"),)
    listed = [[_comparison(form, equal) for form, equal in sets.constraints(piece)] for piece in pieces]
    if len(listed) == 1:
        return tuple(listed[0])
    every = sorted((_all(conditions) for conditions in listed), key=lambda precondition: precondition[1])
    either = every[0][0]
    for condition, _ in every[1:]:
        either = Binary("|", either, condition, bool_)
    return ((either, " or ".join(f"({words})" for _, words in every)),)


def _all(conditions: list[Precondition]) -> Precondition:
    joined = arithmetic.conjunction(condition for condition, _ in conditions)
    words = " and ".join(words for _, words in conditions)
    return (Const(True, bool_), "any size") if joined is None else (joined, words)


def _comparison(form: isl.Aff, equal: bool) -> Precondition:
    """``form == 0`` or ``form >= 0``, with positive terms on the left: ``R >= 32``, ``2*C >= R + 1``."""
    taken = sets.terms(form)
    parts: list[tuple[int, Expr]] = [(c, Param(name, int64)) for c, name in taken.params]
    parts += [(c, of_operands(div, ())) for c, div in taken.divs]
    left = [(c, e) for c, e in parts if c > 0]
    right = [(-c, e) for c, e in parts if c < 0]
    operator = "==" if equal else ">="
    for sign in (1, -1) if equal else ():
        rest = as_remainders(simplified(arithmetic.total(sign * taken.constant, [(sign * c, e) for c, e in parts])))
        if isinstance(rest, Binary) and rest.op == "%":  # N % 4 == 0
            return Binary("==", rest, arithmetic.number(0), bool_), f"{rest} == 0"
    constants = (0, -taken.constant)
    if not left:  # N <= 8
        left, right, constants, operator = right, [], (0, taken.constant), "==" if equal else "<="
    sides = arithmetic.total(constants[0], left), arithmetic.total(constants[1], right)
    words = f"{_sum(left, constants[0])} {operator} {_sum(right, constants[1])}"
    return Binary(operator, *sides, bool_), words


def _sum(terms: list[tuple[int, Expr]], constant: int) -> str:
    words = " + ".join(str(e) if factor == 1 else f"{factor}*{e}" for factor, e in terms)
    if not words:
        return str(constant)
    return f"{words} {'+' if constant > 0 else '-'} {abs(constant)}" if constant else words
