"""Blocks of memory beside brute force: every way to share memory, and the bytes at each step counted one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from tiramisu_py.passes.memory.lifetimes import Lifetime
from tiramisu_py.passes.memory.share_memory import SharedBlock, Tenant, assigned, most_bytes

STEPS = 9


def tenants(seed: int, count: int, sizes: Sequence[int]) -> list[Tenant]:
    """Arrays of random sizes and spans."""
    rng = random.Random(seed)
    found = []
    for k in range(count):
        first = rng.randrange(STEPS)
        last = rng.randrange(first, min(first + 4, STEPS))
        found.append(Tenant(f"t{k}", rng.choice(sizes), Lifetime(first, last, ended=last)))
    return found


def spans(tenant: Tenant) -> range:
    """The steps at which an array exists."""
    return range(tenant.life.first, tenant.life.last + 1)


def peak(blocks: Sequence[Sequence[Tenant]]) -> int:
    """The most bytes at a step: a block has the size of its largest array, from the first to the last of its arrays."""
    at = [0] * STEPS
    for block in blocks:
        steps = [step for tenant in block for step in spans(tenant)]
        for step in range(min(steps), max(steps) + 1):
            at[step] += max(tenant.size for tenant in block)
    return max(at)


def partitions(rest: Sequence[Tenant]) -> Iterator[list[list[Tenant]]]:
    """All partitions into blocks of arrays of which no two exist at one step."""
    if not rest:
        yield []
        return
    first, *others = rest
    for found in partitions(others):
        yield [[first], *found]
        for k, block in enumerate(found):
            if not any(set(spans(first)) & set(spans(other)) for other in block):
                yield [*found[:k], [first, *block], *found[k + 1 :]]


def blocks_of(turns: Sequence[SharedBlock]) -> list[list[Tenant]]:
    return [turn.in_order() for turn in turns]


@pytest.mark.parametrize("seed", range(6))
def test_arrays_of_one_size_have_as_many_bytes_as_live_at_a_time(seed: int) -> None:
    for k in range(40):
        given = tenants(100 * seed + k, 9, [8])
        live = max(sum(step in spans(each) for each in given) for step in range(STEPS))
        found = assigned(given, STEPS, lasting=False)
        assert peak(blocks_of(found)) == most_bytes(found, STEPS) == 8 * live
        lasting = assigned(given, STEPS, lasting=True)
        assert len(lasting) == live and most_bytes(lasting, STEPS) == 8 * live


@pytest.mark.parametrize("seed", range(6))
def test_no_two_arrays_of_a_block_live_together_and_the_bytes_are_near_the_fewest(seed: int) -> None:
    best = 0
    for k in range(20):
        given = tenants(1000 + 100 * seed + k, 6, [1, 2, 3, 5, 8])
        found = blocks_of(assigned(given, STEPS, lasting=False))
        assert sorted(each.name for block in found for each in block) == sorted(each.name for each in given)
        for block in found:
            steps = [step for each in block for step in spans(each)]
            assert len(steps) == len({*steps}), "two arrays of a block live at one step"
        fewest = min(map(peak, partitions(given)))
        assert fewest <= peak(found) <= 1.25 * fewest
        best += peak(found) == fewest
    assert best >= 18, f"{best} of 20 are as good as they can be"


def test_memory_is_not_shared_where_that_costs_more() -> None:
    large = Tenant("large", 4, Lifetime(0, 1, ended=1))
    small = [Tenant(name, 2, Lifetime(3, 4, ended=4)) for name in ("one", "other")]
    found = assigned([large, *small], STEPS, lasting=False)
    assert most_bytes(found, STEPS) == peak(blocks_of(found)) == 4
    assert most_bytes(assigned([large, *small], STEPS, lasting=True), STEPS) == 6
