"""Versions of a function for constant sizes and scalars, and for conditions on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from tiramisu_py.algorithm.domains.references import check_references
from tiramisu_py.algorithm.domains.specializations import Sizes, Specialization
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, as_expr, typed_const
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CommandError, DeclarationError, DTypeError
from tiramisu_py.program.command import spelled
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import size
from tiramisu_py.schedule.command_fields import OnFunction

#: The most versions that a function can have besides the general one.
MOST_VERSIONS = 16


def specialize(program: Program, conditions: Sequence[object], constants: Mapping[str, object]) -> Program:
    """The program with an additional version, in which conditions hold and some parameters and scalars are constant."""
    name, params = program.algorithm.name, program.algorithm.params
    if not constants and not conditions:
        raise CommandError(
            f"say for which calls a version is: {name}.specialize({params[0] if params else 'N'}=64), or a condition "
            "on sizes"
        )
    found = Specialization(_sizes(program, constants), tuple(_condition(program, given) for given in conditions))
    if found.key() in [each.key() for each in program.calls.specialized]:
        raise CommandError(f"{name} has a version for {found} already")
    if len(program.calls.specialized) >= MOST_VERSIONS:
        raise CommandError(f"{name} has {MOST_VERSIONS} versions already: more would make it slow to compile")
    context = found.context(program.algorithm)
    if context.is_empty():
        raise CommandError(f"{found} contradicts what {name} assumes of its parameters")
    if (
        not found.sizes
        and not found.asks_for_more_than_sizes(program.algorithm)
        and program.algorithm.context.is_subset(context)
    ):
        raise CommandError(f"{found} holds in every call of {name}: its loops make use of that without a version")
    return program.with_(calls=replace(program.calls, specialized=(*program.calls.specialized, found)))


def _sizes(program: Program, given: Mapping[str, object]) -> Sizes:
    """The constants of a version: those of parameters, then those of scalars."""
    params = program.algorithm.params
    scalars = {each.name: each.dtype for each in program.algorithm.inputs.values() if each.scalar}
    unknown = [own for own in given if own not in params and own not in scalars]
    if unknown:
        known = ", ".join([*params, *scalars]) or "none"
        kinds = "parameter and no scalar" if scalars else "parameter"
        raise CommandError(f"{program.algorithm.name} has no {kinds} {unknown[0]}; it has {known}")
    constant = {param: size(given[param], param, 0) for param in params if param in given}
    values = ((own, _value(own, dtype, given[own])) for own, dtype in scalars.items() if own in given)
    return (*constant.items(), *values)


def _value(name: str, dtype: DType, given: object) -> bool | int | float:
    """A constant of the type of a scalar; raises `CommandError` for what is no value of it, or equals nothing."""
    value = given.item() if isinstance(given, np.generic) else given
    if not isinstance(value, bool | int | float) or isinstance(value, bool) != dtype.is_bool:
        raise CommandError(f"{name} is a scalar of {dtype}, and {given!r} is none")
    try:
        found = typed_const(value, dtype).value
    except (DTypeError, OverflowError) as error:
        raise CommandError(f"{name}: {error}") from None
    if found != found:
        raise CommandError(f"{name} is never equal to {given!r}: no call would have this version")
    return float(dtype.numpy.type(found)) if dtype.is_float else found


def _condition(program: Program, given: object) -> Expr:
    """A condition on parameters and scalars; raises `CommandError` for anything else."""
    algorithm = program.algorithm
    scalars = [each.name for each in algorithm.inputs.values() if each.scalar]
    try:
        condition = as_expr(given)
        for node in walk(condition):
            if isinstance(node, Iter) or (isinstance(node, Access) and node.source not in scalars):
                raise CommandError(
                    f"{spelled(condition)} depends on {node}, and a version is chosen once for a call: conditions are "
                    "on parameters and scalars"
                )
        check_references(algorithm, "the condition", condition, (), algorithm.owner)
    except (DeclarationError, DTypeError) as error:
        raise CommandError(str(error)) from None
    if not condition.dtype.is_bool:
        said = spelled(condition)
        raise CommandError(f"{said} is no condition: write {said} == 0, or another comparison")
    return condition


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Specialize(OnFunction):
    """Make a version for calls with some constant sizes or scalars, or in which conditions on them hold.

    ::

        for i in 0..N: S[i]     -->   if N == 64:
                                          for i in 0..64: S[i]
                                      else:
                                          for i in 0..N: S[i]         (f.specialize(N=64))

    ``f.specialize(K=16, M=16)`` is for calls with both values, ``f.specialize(beta=0.0)`` for those with this value
    of a scalar (not with -0.0, so that all bits stay the same): conditions on it are decided. With constant sizes,
    the remainders of `unroll` and `vectorize` are known at compile time, small buffers become registers, and
    address arithmetic is cheaper.

    ``f.specialize(N % 16 == 0, beta != 0)`` is for calls in which both conditions hold: loops have no remainder
    that the first one excludes, and choices by the second one are made. Conditions are on parameters and scalars.
    Each call chooses by its values: of several versions that fit, the one with most constants and conditions, or
    else the first. The schedule is the same in all versions, and the proof of the function is for all its sizes, so
    that it holds for each. Versions take compile time and space in the library: there can be 16 at most.

    Raises `CommandError` for names that are no parameter and no scalar, for values that the scalar cannot have,
    for sizes that its assumptions exclude, and for conditions on anything else. Functions that use GPUs or ranks
    have no versions: `check()` refuses them.
    """

    many = "conditions"
    by_name = "constants"

    constants: Mapping[str, bool | int | float]
    conditions: tuple[Expr, ...] = ()

    @classmethod
    def called(cls, function: str, /, *conditions: Expr, **constants: bool | int | float) -> Self:
        return cls(function, constants, conditions)

    def applied(self, program: Program) -> Program:
        return specialize(program, self.conditions, self.constants)
