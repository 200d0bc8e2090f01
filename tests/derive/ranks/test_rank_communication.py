"""What ranks exchange, counted before running: against closed forms, against counting one by one, for many ranks."""

from __future__ import annotations

from collections import Counter

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.effort import calls
from tests.programs.ranks.derived import C, blur, c, heat, heat_on_grid, moved, q, r, r1
from tiramisu_py import sets
from tiramisu_py.counting.amounts import Amount
from tiramisu_py.counting.lattice_points import classes, count
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.statement import Role


def derived(f: tm.Function) -> tm.Function:
    f.derive_transfers()
    return f


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_the_blur_exchanges_two_rows_between_neighbours(ranks: int) -> None:
    found = derived(blur(ranks)).cost("communication", C=201)
    assert found.elements == 2 * (ranks - 1) * 201
    assert found.bytes == 4 * found.elements
    assert found.messages == 2 * (ranks - 1)
    if ranks > 2:
        assert found.of_rank(0).sent == Amount(201, 804, 1)
        assert found.of_rank(1).sent == found.of_rank(1).received == Amount(402, 1608, 2)


@pytest.mark.parametrize("make", [lambda: blur(4, 3, 4), lambda: heat(3, 4), lambda: heat_on_grid((2, 3), 3, True)])
def test_ranks_and_channels_are_those_of_the_elements_one_by_one(make) -> None:  # type: ignore[no-untyped-def]
    f = derived(make())
    sizes = {name: size for name, size in {"C": 5, "T": 3}.items() if name in f.algorithm.params}
    found, elements = f.cost("communication", **sizes), moved(f, Role.SEND, **sizes)
    assert found.elements == elements.total()
    numbers = {at: n for n, at in enumerate(_all_ranks(found.grid))}
    listed: Counter[tuple[int, int]] = Counter()
    for element, times in elements.items():
        listed[numbers[element.sender], numbers[element.receiver]] += times
    by_channel: Counter[tuple[int, int]] = Counter()
    for channel in found.channels():
        by_channel[channel.sender, channel.receiver] += channel.elements
    assert by_channel == listed
    for rank, each in enumerate(found.by_rank):
        assert each.sent.elements == sum(n for (sender, _), n in listed.items() if sender == rank)
        assert each.received.elements == sum(n for (_, receiver), n in listed.items() if receiver == rank)
    for field in ("elements", "bytes", "messages"):
        assert sum(getattr(each.sent, field) for each in found.by_rank) == getattr(found, field)


def _all_ranks(grid: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for extent in grid:
        found = [(*at, x) for at in found for x in range(extent)]
    return found


def test_many_ranks_are_counted_without_listing_them() -> None:
    found = derived(blur(65536, 16)).cost("communication", C=4096)
    assert found.elements == 2 * 65535 * 4096
    assert found.of_rank(32768).sent == Amount(2 * 4096, 8 * 4096, 2)
    on_grid = derived(heat_on_grid((256, 256), 8)).cost("communication", T=100, C=3)
    tile, inner = 8, 100 * (256 * 8 - 2)  # an edge of the plate is only copied
    assert on_grid.elements == 2 * 2 * 255 * inner
    assert on_grid.of_rank((100, 100)).sent == Amount(100 * 4 * tile, 100 * 16 * tile, 400)


def test_to_count_for_many_ranks_is_no_more_work_than_for_few() -> None:
    def counted(ranks: int, grid: tuple[int, int]) -> int:
        """The calls for two programs, built, derived and counted."""
        line = calls(lambda: derived(blur(ranks, 16)).cost("communication", C=4096))
        return line + calls(lambda: derived(heat_on_grid(grid, 8)).cost("communication", T=100, C=3))

    assert counted(65536, (256, 256)) < 1.1 * counted(16, (4, 4))


def test_all_to_all_is_counted_by_class() -> None:
    f = tm.Function("gathered", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [4096 * 2, C])
    b = f.computation("b", {r: 4096 * 2, c: C}, 2 * a[r, c])
    f.outputs(b)
    a.distribute_array([r, c], rank=r // 2)
    b.split(r, 2, q, r1)
    b.tag_distribute(q)
    found = derived(f).cost("communication", C=10)
    assert found.elements == 4096 * 4095 * 20
    assert found.messages == 4096 * 4095
    assert found.of_rank(7).received == Amount(4095 * 20, 4095 * 80, 4095)


def test_what_ranks_exchange_reads_as_a_table() -> None:
    f = derived(blur(4))
    lines = str(f.cost("communication", C=201)).splitlines()
    assert lines[0].split() == ["direction", "elements", "bytes", "messages"]
    assert lines[-1].split() == ["together", "1206", "4824", "6"]
    assert len({len(line) for line in lines}) == 1


def test_ranks_that_do_not_exist_are_refused() -> None:
    found = derived(heat_on_grid((2, 3))).cost("communication", T=1, C=3)
    assert found.of_rank(5) == found.of_rank((1, 2))
    for wrong in (6, -1, (2, 0), (0,)):
        with pytest.raises(ArgumentError, match="there is no rank"):
            found.of_rank(wrong)


TEXTS = [
    "{ [i, j] : 0 <= i < 10 and 0 <= j <= i }",
    "{ [i, j] : 0 <= i < 1000 and 3i <= j < 3i + 7 and j < 2990 }",
    "{ [i, j, k] : 0 <= i < 6 and j = 2i and 0 <= k < j + 1 }",
    "{ [i, j] : 0 <= i < 9 and 0 <= j < 9 and (i + j) mod 3 = 1; [i, j] : 20 <= i < 23 and 0 <= j < 4 }",
    "{ [i, j] : 0 <= i < 5 and i <= j < 5; [i, j] : 0 <= j < 5 and j <= i < 5 }",
    "{ [i] : 1 = 0 }",
]


@pytest.mark.parametrize("text", TEXTS)
def test_counting_agrees_with_listing(text: str) -> None:
    given = isl.Set(text)
    assert count(given) == len(sets.points(given))


@pytest.mark.parametrize("text", TEXTS[:5])
def test_classes_part_the_keys_by_their_images(text: str) -> None:
    given = isl.Set(text)
    variables = sets.variables(given.get_space())
    parts = [sets.graph(sets.function(given.get_space(), None, forms)) for forms in (variables[:1], variables[1:])]
    relation = parts[0].reverse().intersect_range(given).apply_range(parts[1])
    expected = Counter(point[0] for point in sets.points(given))
    found = {point[0]: each.images for each in classes(relation) for point in sets.points(each.keys)}
    assert found == dict(expected)
    assert sum(count(each.keys) for each in classes(relation)) == len(expected)
