"""The command that makes versions of a function for constant sizes and scalars: specialize."""

from __future__ import annotations

from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.schedule.specialize import Specialize


class Specializing(Scheduled):
    """The command for sizes and scalars with which a function is often called."""

    def specialize(self, **constants: bool | int | float) -> None:
        """Make a version of the function in which some sizes or scalars are constant, beside the general one.

        ::

            for i in 0..N: S[i]     -->   if N == 64:
                                              for i in 0..64: S[i]
                                          else:
                                              for i in 0..N: S[i]         (f.specialize(N=64))

        ``f.specialize(K=16, M=16)`` is for calls with both values, ``f.specialize(beta=0.0)`` for those with this value
        of a scalar (not with -0.0, so that all bits stay the same): conditions on it are decided. Each call chooses by
        its values: of several versions that fit, the one with most constants, or else the first. With constant sizes,
        the remainders of `unroll` and `vectorize` are known at compile time, small buffers become registers, and
        address arithmetic is cheaper. The schedule is the same in all versions, so the proof of the function holds for
        each. Versions take compile time and space in the library: there can be 16 at most.

        Raises `CommandError` for names that are no parameter and no scalar, for values that the scalar cannot have,
        and for sizes that its assumptions exclude. Functions that use GPUs or ranks have no versions: `check()`
        refuses them.
        """
        self.apply(Specialize(self.name, constants))
