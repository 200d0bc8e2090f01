"""Parts of a model that put their activations in files: as many as the disk can take without slowing a step.

Backwards takes twice the time of forwards. When the backward pass of part m begins, everything before m has to be
stored, and m itself stored and loaded again. So, of parts with bytes b and seconds c forwards, storing up to m needs

    (sum of b before m + 2 b[m]) / (sum of all c + 2 * sum of c after m)   bytes a second
"""

from __future__ import annotations

from collections.abc import Sequence


def bandwidth_needed(held: Sequence[float], seconds: Sequence[float], last: int) -> float:
    """The bytes a second with which parts up to `last` can be in files, and no step waits."""
    time = sum(seconds) + 2 * sum(seconds[last + 1 :])
    moved = sum(held[:last]) + 2 * held[last]
    return moved / time if time > 0 else (0.0 if moved == 0 else float("inf"))


def last_offloaded(held: Sequence[float], seconds: Sequence[float], bandwidth: float) -> int:
    """The last part whose activations go to files; those after it stay in memory. -1: all stay."""
    fitting = [k for k in range(len(held)) if bandwidth_needed(held, seconds, k) <= bandwidth]
    return max(fitting, default=-1)
