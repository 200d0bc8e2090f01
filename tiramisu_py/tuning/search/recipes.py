"""Recipes as what `tune` makes points of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from tiramisu_py import Computation, Function
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import function_of


def of_recipe(recipe: Callable[..., object], of: Computation | Sequence[Computation]) -> Callable[..., Function]:
    """A function of a point: the function of some computations as it is now, scheduled by a recipe.

    The recipe takes the computations, and the point as its `sizes`, or as keyword arguments. Raises `ArgumentError`.
    """
    stages = [of] if isinstance(of, Computation) else list(of) if isinstance(of, Sequence) else []
    if not callable(recipe) or not stages or not all(isinstance(each, Computation) for each in stages):
        raise ArgumentError(
            f"tune: of={of!r}: give the computations that a recipe is to schedule, "
            "tm.tune(tm.recipes.matmul, space, of=C)"
        )
    start = function_of(stages[0])
    names = [each.name for each in stages]
    takes_sizes = "sizes" in inspect.signature(recipe).parameters

    def make(**point: object) -> Function:
        f = start.copy()
        given = {"sizes": point} if takes_sizes and "sizes" not in point else point
        recipe(*(f[name] for name in names), **given)
        return f

    return make
