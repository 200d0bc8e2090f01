"""Commands on loops over time: time_tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import AppliedStatements, as_list
from tiramisu_py.schedule.locality.time_tile import TimeTiles

if TYPE_CHECKING:
    from tiramisu_py.function.handles.selection import Selection


class TimeCommands(AppliedStatements):
    """Commands for a computation that steps through time."""

    def time_tile(
        self,
        time: Iter,
        steps: int,
        tiles: Mapping[Iter, int],
        outer: Sequence[Iter] | None = None,
        *,
        together: Sequence[AppliedStatements] = (),
        origin: int = 0,
        wavefront: Mapping[Iter, int] | None = None,
    ) -> tuple[Selection, ...]:
        """Compute several levels of time in one tile of space; each tile also computes the halo that they need.

        ::

            for t, for y, for x:    -->   for t0:                                passes of 13 levels
                heat[t, y, x]                 for y0, for x0:                    tiles: independent of each other
                                                  for t in pass t0:
                                                      for y, for x: heat_tile[t, y, x]   (the tile and its halo)
                                                  (the last level of the pass: to the array of heat)
                                          (time_tile(t, 13, {y: 64, x: 1024}))

        A pass computes `steps` levels, those with the same ``floor((t - origin) / steps)``; the number of levels need
        not be a multiple of `steps`. At the last level of a pass each tile computes its own points; at the level before
        also the points that these read, and so on: the *halo*, which neighbouring tiles compute as well. So the tiles
        of a pass are independent: ``heat.parallelize(y0, x0)``. Levels inside a pass are kept in a buffer of the tile,
        one more than the levels that reads reach back; the last level (or as many as reads reach back) goes to the
        array of heat, where the next pass reads it. That array holds two passes alternately, unless `store_in` gave it
        another layout before.

        `tiles` gives the size of tiles by loop; other loops run in full. The new loops are named t0, y0 and x0, or as
        `outer` says; inside, t, y and x keep their names and their values. `together` are other computations of the
        same step, which read each other: the tile computes each level of all of them. Reads must be at constant
        distances along the tiled loops.

        With ``wavefront={y: 8}`` the levels of a tile advance together, 8 rows at a time: a loop y1 over blocks of rows
        surrounds t, and each level is one row (or as far as reads reach) behind the previous one. The buffer then keeps
        only a ring of rows of each level, so that a tile may be tall, with little halo, and the values that a level
        reads have just been computed. A wavefront requires that all reads are of the previous level.

        With ``heat.vectorize(x, 16, remainder="mask")`` the vectors of all levels begin where those of the buffer do,
        whatever column a level begins at. To jam rows too, first cut off the border (`separate_cases`), and jam only
        the parts of the inside.

        Returns the parts of this computation that exist, to be scheduled separately: ``heat_first``, the first levels
        of passes, which read the values that the previous pass stored; ``heat_inner``; ``heat_last``, which stores for
        the next pass; ``heat_only``, for a (last) pass of one level. If reads reach back more than one level, or values
        of the last level are read in that level, there are also copies, ``heat_load`` and ``heat_store``. Commands on
        the computation apply to all parts: ``heat.vectorize(x, 16)``.

        Raises `CommandError` for a loop that is not over time, for reads at no constant distance, if levels other than
        the last are read after the time loop, and after other commands on these loops.
        """
        if not isinstance(together, list | tuple):
            raise CommandError(f"together={together!r}: give a list of computations, [{together!r}]")
        others = [self._other(other) for other in together]
        before = set(self._function.program.statements)
        command = TimeTiles(
            self._named, time, steps, tiles, as_list(outer), together=others, origin=origin, wavefront=wavefront
        )
        self._apply(command)
        statements = self._function.program.statements.values()
        return self._made([s.name for s in statements if s.source == self._source and s.name not in before])

    if TYPE_CHECKING:  # defined in `Selection`

        def _made(self, names: Sequence[str]) -> tuple[Selection, ...]: ...
