"""The command that makes versions of a function for some of its calls: specialize."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.schedule.specialize import Specialize


class Specializing(Scheduled):
    """The command for sizes and scalars with which a function is often called."""

    def specialize(self, *conditions: Expr, **constants: bool | int | float) -> None:
        """Make a version for calls with some constant sizes or scalars, or in which conditions on them hold.

        ::

            for i in 0..N: S[i]     -->   if N == 64:
                                              for i in 0..64: S[i]
                                          else:
                                              for i in 0..N: S[i]         (f.specialize(N=64))

        ``f.specialize(K=16, M=16)`` is for calls with both values, ``f.specialize(beta=0.0)`` for those with this value
        of a scalar (not with -0.0, so that all bits stay the same): conditions on it are decided. With constant sizes,
        the remainders of `unroll` and `vectorize` are known at compile time, small buffers become registers, and
        address arithmetic is cheaper.

        ``f.specialize(N % 16 == 0, beta != 0)`` is for calls in which both conditions hold: loops have no remainder
        that the first one excludes, and choices by the second one are made. Conditions are on parameters and scalars.
        Each call chooses by its values: of several versions that fit, the one with most constants and conditions, or
        else the first. The schedule is the same in all versions, and the proof of the function is for all its sizes, so
        that it holds for each. Versions take compile time and space in the library: there can be 16 at most.

        Raises `CommandError` for names that are no parameter and no scalar, for values that the scalar cannot have,
        for sizes that its assumptions exclude, and for conditions on anything else. Functions that use GPUs or ranks
        have no versions: `check()` refuses them.
        """
        self.apply(Specialize(self.name, constants, conditions))
