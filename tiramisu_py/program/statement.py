"""Statements: sets of executions of one computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.program.loops import LoopId


class Role(Enum):
    """What an execution does.

    VALUE stores the value of `body`; INIT stores a reduction's identity; UPDATE combines the term `body` into the
    partial result; COPY stores a value that exists elsewhere already.
    """

    VALUE = "value"
    INIT = "init"
    UPDATE = "update"
    COPY = "copy"


@dataclass(frozen=True, eq=False)
class Statement:
    """A set of executions of one computation.

    ========== ============================== =====================================================
    map        from                           to
    ========== ============================== =====================================================
    instances                                 the executions ``name[dims]``
    point      ``name[dims]``                 the point of the computation (value, then reduction, iterators)
    coords     ``name[dims]``                 the iterations of `loops`, outermost first
    ========== ============================== =====================================================

    `source` is the computation (or the input, for a COPY) whose values are stored in the storage `target`. `sources`
    says from which storage the values of a source are loaded, where that is not the storage of the source's name.
    `guards` are conditions on the point that are not affine. `part_of` names the statements that this one was cut from.
    """

    name: str
    source: str
    role: Role
    dims: tuple[str, ...]
    instances: isl.Set
    point: isl.MultiAff
    loops: tuple[LoopId, ...]
    coords: isl.MultiAff
    body: Expr
    target: str
    sources: Mapping[str, str] = field(default_factory=dict)
    guards: tuple[Expr, ...] = ()
    part_of: tuple[str, ...] = ()

    @cached_property
    def frame(self) -> isl.Space:
        """The space of the instances."""
        return self.instances.get_space()

    @cached_property
    def coords_map(self) -> isl.Map:
        """`coords` on the instances."""
        return sets.graph(self.coords, self.instances)

    def depth(self, loop: LoopId) -> int:
        """The position of a loop, 0 for the outermost; raises ValueError."""
        return self.loops.index(loop)

    def prefix(self, count: int) -> isl.MultiAff:
        """The iterations of the outermost `count` loops."""
        return sets.prefix(self.coords, count)
