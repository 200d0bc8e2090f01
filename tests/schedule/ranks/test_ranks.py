"""Commands that run loops on ranks and hold arrays in parts: what they do to the program."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tests.programs.ranks.pipelines import B, P, blur, c, heat, i, j, q, q0, q1, r, r1, t, tiles, x
from tiramisu_py import sets
from tiramisu_py.program.loops import Rank
from tiramisu_py.program.machine.distribution import Dealt
from tiramisu_py.program.ranks.spread import axes, ranks


def tags(f: tm.Function, name: str) -> dict[str, object]:
    """The tags of a statement's loops, by name."""
    program = f.program
    return {program.loops[number].name: program.loops[number].tag for number in program.statements[name].loops}


def grid(f: tm.Function, **params: int) -> set[tuple[int, ...]]:
    """The coordinates of all ranks at some sizes, by isl's enumeration."""
    return set(sets.points(sets.at_params(ranks(f.program), params)))


def test_loops_run_along_the_axes_in_their_order():
    s = tiles()
    s.b.tag_distribute(q0, q1)
    assert tags(s.f, "b") == {"q0": Rank(0), "q1": Rank(1), "x": None, "y": None}
    assert grid(s.f) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    s.f.undo()
    s.b.tag_distribute(q1, axis=0, drop_rank_iter=False).tag_distribute(q0, axis=1)
    assert tags(s.f, "b") == {"q0": Rank(1), "q1": Rank(0, local=False), "x": None, "y": None}
    assert texts(s.f)[-2:] == ("b.tag_distribute(q1, axis=0, drop_rank_iter=False)", "b.tag_distribute(q0, axis=1)")


def test_a_loop_at_any_depth_runs_on_ranks_and_stays_one_of_the_nest():
    s = blur(ranks=False)
    s.bx.split(r, B, q, r1).tag_distribute(r1)
    assert s.f.program.loop_names(s.f.program.statements["bx"]) == ("q", "r1", "c")
    assert grid(s.f, C=1) == {(number,) for number in range(B)}
    s.bx.interchange(r1, c)
    assert tags(s.f, "bx") == {"q": None, "c": None, "r1": Rank(0)}


def test_what_surrounds_a_loop_of_ranks_may_change_and_the_tag_stays_with_the_loop():
    s = blur()
    s.bx.split(c, 8, i, j).interchange(r1, i).reorder(i, q).shift(r1, 1).reverse(j).vectorize(j, 4).parallelize(r1)
    found = tags(s.f, "bx")
    assert list(found) == ["i", "q", "r1", "j"]
    assert found["q"] == Rank(0)
    s.by.shift(q, 1)
    assert grid(s.f, C=1) == {(number,) for number in range(P + 1)}
    assert tags(s.f, "by")["q"] == Rank(0)


def test_parts_of_a_loop_of_ranks_run_on_the_same_ranks_with_schedules_of_their_own():
    s = blur()
    first, others = s.bx.separate_at(q, [1])
    others.parallelize(r1)
    assert tags(s.f, "bx_0")["q"] == tags(s.f, "bx_1")["q"] == Rank(0)
    assert tags(s.f, "bx_0")["r1"] is None
    assert tags(s.f, "bx_1")["r1"] is not None
    assert first.name == "bx_0"
    assert grid(s.f, C=1) == {(number,) for number in range(P)}


def test_the_number_of_the_rank_names_the_loop_that_runs_on_ranks():
    s, same = blur(), blur()
    s.bx.interchange(r1, c).separate_at(tm.rank, [1])
    same.bx.interchange(r1, c).separate_at(q, [1])
    for name in ("bx_0", "bx_1"):
        a, b = s.f.program.statements[name], same.f.program.statements[name]
        assert str(a.instances) == str(b.instances)
        assert str(a.coords) == str(b.coords)
    assert texts(s.f)[-1] == "bx.separate_at(tm.rank, [1])"
    s.b = blur(ranks=False).bx
    with pytest.raises(tm.CommandError, match="no loop here runs on ranks along axis 0"):
        s.b.separate_at(tm.rank, [1])


def test_shared_loops_of_ranks_are_one_loop():
    s = blur()
    s.by.after(s.bx, q)
    bx, by = (s.f.program.statements[name] for name in ("bx", "by"))
    assert bx.loops[0] == by.loops[0]
    assert bx.loops[1] != by.loops[1]
    assert s.f.program.loops[bx.loops[0]].tag == Rank(0)


def test_a_producer_computed_in_the_loops_of_ranks_of_its_reader_needs_no_message():
    s = blur(ranks=False)
    for array in (s.image, s.by):
        array.distribute_array([r, c], rank=None)
    s.by.split(r, B, q, r1).tag_distribute(q)
    s.bx.compute_at(s.by, q)
    assert tags(s.f, "bx")["q"] == Rank(0)
    s.by.distribute_array([r, c], rank=r // B)
    assert s.f.check().ok, s.f.check()


def test_a_declared_grid_is_what_it_says_and_replaces_an_earlier_one():
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N], assume="N >= 2")
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("b", {i: N}, a[i] + 1))
    f.grid(3)
    f.grid(2, N - 1)
    assert texts(f) == ("f.grid(3)", "f.grid(2, N - 1)")
    assert axes(f.program) == 2
    assert grid(f, N=4) == {(a, b) for a in range(2) for b in range(3)}
    assert grid(f, N=2) == {(0, 0), (1, 0)}


def test_a_grid_that_is_not_declared_is_as_large_as_the_loops_need():
    s = tiles()
    s.b.tag_distribute(q0)
    s.p.split(i, 2, q, x).tag_distribute(q, axis=1)
    assert grid(s.f) == {(a, b) for a in range(2) for b in range(4)}


@pytest.mark.parametrize(
    ("rank", "held"),
    [
        (r // B, (Dealt(0, B),)),
        ((c // 8) % 3, (Dealt(1, 8, 3),)),
        (c % 3, (Dealt(1, 1, 3),)),
        (r, (Dealt(0, 1),)),
        (2, (2,)),
        (None, (None,)),
        ((r // B, None), (Dealt(0, B), None)),
        ((c // 4, r // B), (Dealt(1, 4), Dealt(0, B))),
        ((0, c // 4), (0, Dealt(1, 4))),
    ],
)
def test_arrays_are_held_in_blocks_in_turn_by_one_rank_or_by_all(rank, held):
    s = blur(ranks=False)
    s.image.distribute_array([r, c], rank=rank)
    assert s.f.program.ranks.distributions["image"].axes == held
    again = blur(ranks=False)
    names = {"image": again.image, "r": r, "c": c}
    exec(texts(s.f)[-1], names)  # the log can be executed
    assert again.f.program.ranks.distributions["image"].axes == held


def test_iterators_of_a_distribution_are_names_of_dimensions_whatever_they_are_called():
    s = blur(ranks=False)
    s.image.distribute_array([i, j], rank=j // 8)
    s.image.distribute_array([c, r], rank=c // 8)
    assert s.f.program.ranks.distributions["image"].axes == (Dealt(0, 8),)


def test_an_output_over_an_input_is_held_as_the_input_is_whichever_comes_first():
    before, after = tiles(in_place=True), tiles()
    before.a.distribute_array([i, j], rank=i // 4)
    after.a.distribute_array([i, j], rank=i // 4)
    after.b.store_in(after.a, [i, j])
    for s in (before, after):
        assert s.f.program.ranks.distributions["a"] == s.f.program.ranks.distributions["b"]
    other = tiles()
    other.a.distribute_array([i, j], rank=i // 4)
    other.b.distribute_array([i, j], rank=j // 4)
    with pytest.raises(tm.CommandError, match="a and b are one array of the caller: distribute them alike"):
        other.b.store_in(other.a, [i, j])


def test_a_slice_that_is_returned_is_distributed_by_its_name():
    s = heat()
    assert s.f.program.ranks.distributions["h_out"].axes == (Dealt(0, B),)
    assert tags(s.f, "h") == {"t": None, "q": Rank(0), "x": None}
    s.h.interchange(t, q)
    assert list(tags(s.f, "h")) == ["q", "t", "x"]


def test_a_retagged_loop_has_the_later_tag():
    s = tiles()
    s.b.tag_distribute(q0).tag_distribute(q0, axis=1).tag_distribute(q1, axis=0)
    assert tags(s.f, "b") == {"q0": Rank(1), "q1": Rank(0), "x": None, "y": None}


def test_values_do_not_depend_on_the_rank():
    f = tm.Function("f", params=[])
    with pytest.raises(tm.DeclarationError, match=r"b uses the iterator tm\.rank, .*: a value is the same on every"):
        f.computation("b", {i: 8}, tm.rank + i)
    with pytest.raises(tm.DeclarationError, match=r"b uses the iterator j, which is not among its iterators \(i\)$"):
        f.computation("b", {i: 8}, j + i)


def test_parts_that_share_the_loop_over_ranks_cannot_be_parted_around_it() -> None:
    q, x, i = tm.iters("q x i")
    f = tm.Function("f", params=[])
    a = f.input("a", tm.float32, [8])
    b = f.computation("b", {i: 8}, 2 * a[i])
    d = f.computation("d", {i: 8}, 3 * a[i])
    f.outputs(b, d)
    b.split(i, 2, q, x)
    b.tag_distribute(q)
    first, second = b.separate_at(x, [1])
    with pytest.raises(tm.CommandError, match=r"cycle: .*\(b_0 and b_1 share a loop, so nothing outside it"):
        f.order(first, d, second, at=tm.root)
