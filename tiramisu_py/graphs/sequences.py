"""Operation sequences of a layer's kernels: values that need nothing of each other are computed side by side."""

from __future__ import annotations

from collections.abc import Collection

import tiramisu_py as tm
from tiramisu_py import queries

#: The most sequences of a layer: kernels of a layer fill a GPU, and more of them side by side only wait.
MOST = 4


def sequences_of(f: tm.Function, most: int = MOST, taken: Collection[str] = ()) -> dict[str, int]:
    """The operation sequence of each value: that of a value that it is computed from, or a new one.

    A value goes on where the last value is one that it needs, so that it waits for nothing there; of several such
    sequences, where that is the latest. If there is none, the last values of all sequences are independent of it: it
    begins a new one, up to `most`, and after that goes where the last value is the earliest. Values that others have
    `taken` along are where these are.
    """
    needed: dict[str, set[str]] = {}
    last: list[str] = []
    found: dict[str, int] = {}
    for name, declared in f.program.algorithm.computations.items():
        direct = {source for source in queries.sources_of(declared) if source in needed}
        needed[name] = direct.union(*(needed[source] for source in direct))
        if not declared.iterators or name in taken:
            continue
        order = [*found]
        going_on = [each for each in last if each in needed[name]]
        if going_on:
            number = last.index(max(going_on, key=order.index))
        elif len(last) < most:
            number = len(last)
            last.append(name)
        else:
            number = last.index(min(last, key=order.index))
        last[number] = name
        found[name] = number
    return found
