"""The command that parts a computation by what its expression chooses: separate_cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.schedule.instances.separate_cases import SeparateCases

if TYPE_CHECKING:
    from tiramisu_py.function.handles.selection import Selection


class CaseCommands(AppliedStatements):
    """What a computation with a choice can be told."""

    def separate_cases(self, level: Iter | None = None) -> tuple[Selection, ...]:
        """Cut the computation into parts by the cases of its selects; each part is scheduled apart.

        ::

            for i in 0..N:                        -->   for i in {0}: S_0[i] = a
                S[i] = select(i == 0, a, b)             for i in 1..N: S_1[i] = b         (separate_cases())

        Conditions that are affine are decided: the parts have no choice left to make, so that the inside of a picture
        is a loop of its own, without its border. The parts share the loops up to `level`; without one they are nests of
        their own. (Compiled loops have no such choices inside in any case: this is for schedules that differ.)
        Returns the parts, that of the first branch first.
        """
        self._apply(SeparateCases(self._named, level))
        return self._parts()

    if TYPE_CHECKING:  # what is parted knows its handles

        def _parts(self) -> tuple[Selection, ...]: ...
