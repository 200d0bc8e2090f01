"""How many lanes an expression has, and which expressions the emitter can compute on all lanes at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tiramisu_py.algorithm.expressions import Call, Cast, Expr, Iter, Select
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.lower.ir import Lane, Load, Ramp

#: Functions of more arguments are called lane by lane.
MOST_ARGUMENTS = 2


@dataclass(frozen=True)
class Lanes:
    """The lanes of the variables in sight, and of the elements of buffers: (number of indices, lanes)."""

    variables: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def with_variable(self, name: str, lanes: int) -> Lanes:
        """What is in sight where a variable is defined."""
        return replace(self, variables={**self.variables, name: lanes})

    def with_buffer(self, name: str, rank: int, lanes: int) -> Lanes:
        """What is in sight where a buffer exists."""
        return replace(self, buffers={**self.buffers, name: (rank, lanes)})

    def of(self, e: Expr) -> int:
        """The lanes of an expression: 1 for a scalar."""
        match e:
            case Ramp():
                return e.lanes
            case Iter():
                return self.variables.get(e.name, 1)
            case Lane():
                return 1
            case Load():
                inner = max(map(self.of, e.indices), default=1)
                return max(inner, self.of_element(e.buffer, len(e.indices)))
        return max(map(self.of, e.children()), default=1)

    def of_element(self, buffer: str, rank: int) -> int:
        """The lanes of an element that `rank` indices name (one more than the buffer has names a lane)."""
        own, lanes = self.buffers.get(buffer, (rank, 1))
        return lanes if rank == own else 1

    def vectorisable(self, e: Expr) -> bool:
        """Whether all lanes can be computed at once: every branch of a choice between lanes may be read in every lane."""
        return all(self._computable(part) for part in walk(e) if self.of(part) > 1)

    def _computable(self, e: Expr) -> bool:
        if e.dtype.is_float and e.dtype.bits == 16:
            return False
        match e:
            case Select():
                lazy = self.of(e.condition) > 1
                return not (lazy and any(isinstance(part, Load) for part in [*walk(e.yes), *walk(e.no)]))
            case Call():
                return len(e.arguments) <= MOST_ARGUMENTS
            case Cast():
                return not (e.operand.dtype.is_float and e.operand.dtype.bits == 16)
        return True
