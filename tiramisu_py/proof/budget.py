"""The budget of one check: a bound on what isl may do for all conditions, and for blame, together.

isl counts its operations from the start of the check, and stops at a limit. A condition may use three quarters of what
is left; if it gives up, the last quarter is left to the conditions after it. Once a program is refused, the rest is
counted apart: an eighth of the budget for the remaining conditions, and an eighth for finding the commands to blame. A
proof has an eighth for listing what it took on trust. So a check never uses more than 5/4 of its budget.
"""

from __future__ import annotations

from types import TracebackType

import islpy as isl

#: isl does about 2.8 million operations a second; a check that needs more than half a minute is given up.
OPERATIONS = 80_000_000

#: What a refused program may cost in addition, once for the remaining conditions and once for blame: 1/SHARE of the
#: budget each, but at least MOMENT operations.
SHARE, MOMENT = 8, 1_000_000


class Budget:
    """The budget of a check, while it runs: isl's limit on the operations of one context."""

    def __init__(self, context: isl.Context, operations: int = OPERATIONS) -> None:
        self._context = context
        self._operations = operations
        self._left = operations  # not yet used up for certain, below the limit in force and beyond it
        self._whole = operations
        self._before = 0

    def __enter__(self) -> Budget:
        self._before = self._context.get_max_operations()
        self._count_again(self._operations)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.set_max_operations(self._before)
        self._context.reset_operations()

    def given_up(self) -> None:
        """The current condition has used up its part: the next one may have three quarters of the rest."""
        self._left -= self._part()
        self._limit()

    def begin_share(self) -> None:
        """Let the following steps use 1/`SHARE` of the budget, counted anew."""
        self._count_again(max(self._operations // SHARE, MOMENT))

    def _count_again(self, operations: int) -> None:
        self._whole = self._left = operations
        self._context.reset_operations()
        self._limit()

    def _part(self) -> int:
        return max(3 * self._left // 4, 1)

    def _limit(self) -> None:
        used = self._whole - self._left
        self._context.set_max_operations(used + self._part())


def reason(error: isl.Error) -> str:
    """Why isl gave up, in words."""
    text = str(error)
    if is_used_up(error):
        return "isl's budget of operations is used up"
    return f"isl: {text.splitlines()[0]}" if text else "isl gave no reason"


def is_used_up(error: isl.Error) -> bool:
    """Whether isl stopped at the limit, and not for an error of its own."""
    return "maximal number of operations" in str(error)
