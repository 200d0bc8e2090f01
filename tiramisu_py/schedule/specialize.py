"""Versions of a function for constant sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program, Sizes
from tiramisu_py.schedule.command_arguments import size
from tiramisu_py.schedule.command_fields import OnFunction

#: The most versions that a function can have besides the general one.
MOST_VERSIONS = 16


def specialize(program: Program, given: Mapping[str, object]) -> Program:
    """The program with an additional version, in which some parameters are constant."""
    name, params = program.algorithm.name, program.algorithm.params
    if not given:
        raise CommandError(f"say which sizes are constant: {name}.specialize({params[0] if params else 'N'}=64)")
    unknown = [param for param in given if param not in params]
    if unknown:
        raise CommandError(f"{name} has no parameter {unknown[0]}; it has {', '.join(params) or 'none'}")
    sizes: Sizes = tuple((param, size(given[param], param, 0)) for param in params if param in given)
    words = ", ".join(f"{param}={value}" for param, value in sizes)
    if sizes in program.specialized:
        raise CommandError(f"{name} has a version for {words} already")
    if len(program.specialized) >= MOST_VERSIONS:
        raise CommandError(f"{name} has {MOST_VERSIONS} versions already: more would make it slow to compile")
    if sets.with_sizes(program.algorithm.context, sizes).is_empty():
        raise CommandError(f"{words} contradicts what {name} assumes of its parameters")
    return program.with_(specialized=(*program.specialized, sizes))


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Specialize(OnFunction):
    """The function gets a version in which some sizes are constant."""

    by_name = "constants"

    constants: Mapping[str, int]

    def applied(self, program: Program) -> Program:
        return specialize(program, self.constants)
