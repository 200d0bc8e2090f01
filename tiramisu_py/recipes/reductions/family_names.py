"""Names of the loops that a recipe makes: those of statements that are to share their loops are the same."""

from __future__ import annotations

from dataclasses import field

from tiramisu_py import Iter
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LoopNames:
    """Fresh iterators by their role, such as "block": the same one whenever a role is asked for again."""

    recipe: Recipe
    made: dict[str, Iter] = field(default_factory=dict)

    def of(self, role: str, name: str) -> Iter:
        """The iterator of a role, with this name, or a similar one, where it is new."""
        if role not in self.made:
            self.made[role] = self.recipe.fresh(name)
        return self.made[role]
