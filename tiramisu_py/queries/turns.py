"""The bytes of temporaries that take turns, before there are loops: an estimate for choices between schedules."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.passes.memory.lifetimes import Lifetime
from tiramisu_py.passes.memory.share_memory import Tenant, assigned
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class TemporaryArray:
    """An array of a call, used from the `first` to the `last` of its steps.

    It has so many `bytes`; turns are chosen by those that it has where each parameter is 1000, its `sample`.
    """

    name: str
    first: int
    last: int
    bytes: int
    sample: int


def bytes_in_turns(arrays: Sequence[TemporaryArray], steps: int, *, lasting: bool = False) -> list[int]:
    """The bytes that arrays have at each of some steps, where those that never live together have memory in turns.

    Turns are those that compiled code takes. Memory that is `lasting`, as a GPU's, is there for all steps. Arrays of
    tiles, in the loops of a step, are not among these.
    """
    known = {each.name: each.bytes for each in arrays}
    lives = [Tenant(each.name, each.sample, Lifetime(each.first, each.last, ended=each.last)) for each in arrays]
    held = [0] * steps
    for block in assigned(lives, steps, lasting):
        size = max(known[tenant.name] for tenant in block.tenants)
        for at in range(block.first, block.end + 1):
            held[at] += size
    return held
