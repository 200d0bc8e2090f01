"""Facts about a call that runs a version of the function: constants, and conditions that hold."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.records import dataclass

#: Parameters and scalars, and their values.
Sizes = tuple[tuple[str, bool | int | float], ...]


@dataclass(frozen=True, eq=False)
class Specialization:
    """The calls for which a function has a version of its own."""

    sizes: Sizes
    conditions: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        return ", ".join([*(f"{name}={value}" for name, value in self.sizes), *map(str, self.conditions)])

    def __len__(self) -> int:
        return len(self.sizes) + len(self.conditions)

    def key(self) -> object:
        """A key by which versions are compared."""
        return self.sizes, tuple(condition.key() for condition in self.conditions)

    def context(self, algorithm: Algorithm, within: isl.Set | None = None) -> isl.Set:
        """The sizes of such calls: conditions that are affine in the parameters say so, the others add nothing."""
        sizes = [(name, int(value)) for name, value in self.sizes if name in algorithm.params]
        found = sets.with_sizes(algorithm.context if within is None else within, sizes)
        for condition in self.conditions:
            affine = _affine(algorithm, condition)
            found = found if affine is None else found.intersect(affine)
        return found

    def asks_for_more_than_sizes(self, algorithm: Algorithm) -> bool:
        """Whether some condition is on scalars, or not affine."""
        return any(_affine(algorithm, condition) is None for condition in self.conditions)


def _affine(algorithm: Algorithm, condition: Expr) -> isl.Set | None:
    """The sizes for which a condition holds; None if it is on scalars, or not affine."""
    try:
        return Affine(algorithm.frame(None, ()), {}).condition(condition).params()
    except NotAffine:
        return None
