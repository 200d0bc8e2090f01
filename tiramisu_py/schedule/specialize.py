"""Versions of a function for constant sizes and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import typed_const
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import CommandError, DTypeError
from tiramisu_py.program.program import Program, Sizes
from tiramisu_py.schedule.command_arguments import size
from tiramisu_py.schedule.command_fields import OnFunction

#: The most versions that a function can have besides the general one.
MOST_VERSIONS = 16


def specialize(program: Program, given: Mapping[str, object]) -> Program:
    """The program with an additional version, in which some parameters and scalars are constant."""
    name, params = program.algorithm.name, program.algorithm.params
    if not given:
        raise CommandError(f"say which sizes are constant: {name}.specialize({params[0] if params else 'N'}=64)")
    scalars = {each.name: each.dtype for each in program.algorithm.inputs.values() if each.scalar}
    unknown = [own for own in given if own not in params and own not in scalars]
    if unknown:
        known = ", ".join([*params, *scalars]) or "none"
        kinds = "parameter and no scalar" if scalars else "parameter"
        raise CommandError(f"{name} has no {kinds} {unknown[0]}; it has {known}")
    constant = {param: size(given[param], param, 0) for param in params if param in given}
    values = ((own, _value(own, dtype, given[own])) for own, dtype in scalars.items() if own in given)
    sizes: Sizes = (*constant.items(), *values)
    words = ", ".join(f"{param}={value}" for param, value in sizes)
    if sizes in program.specialized:
        raise CommandError(f"{name} has a version for {words} already")
    if len(program.specialized) >= MOST_VERSIONS:
        raise CommandError(f"{name} has {MOST_VERSIONS} versions already: more would make it slow to compile")
    if sets.with_sizes(program.algorithm.context, constant.items()).is_empty():
        raise CommandError(f"{words} contradicts what {name} assumes of its parameters")
    return program.with_(specialized=(*program.specialized, sizes))


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


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Specialize(OnFunction):
    """The function gets a version in which some sizes and scalars are constant."""

    by_name = "constants"

    constants: Mapping[str, bool | int | float]

    def applied(self, program: Program) -> Program:
        return specialize(program, self.constants)
