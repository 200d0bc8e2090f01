"""The command that cuts a computation by the selects in its expression: separate_cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.schedule.instances.separate_cases import SeparateCases

if TYPE_CHECKING:
    from tiramisu_py.function.handles.selection import Selection


class CaseCommands(AppliedStatements):
    """Commands for a computation with selects."""

    def separate_cases(self, level: Iter | None = None) -> tuple[Selection, ...]:
        """Cut the computation into parts by the cases of its selects; each part is scheduled separately.

        ::

            for i in 0..N:                        -->   for i in {0}: S_0[i] = a
                S[i] = select(i == 0, a, b)             for i in 1..N: S_1[i] = b         (separate_cases())

        Affine conditions are resolved: the parts contain no such select, so that the inside of a picture is a loop of
        its own, without its border. The parts share the loops up to `level`; without a level they are separate nests.
        (The compiler splits loops by such selects in any case; use this command to schedule the parts differently.)
        Returns the parts, that of the first branch first.
        """
        self._apply(SeparateCases(self._named, level))
        return self._parts()

    if TYPE_CHECKING:  # defined in `Selection`

        def _parts(self) -> tuple[Selection, ...]: ...
