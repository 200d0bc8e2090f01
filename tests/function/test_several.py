"""Several computations scheduled by one call: each takes the command once, and all do or none does."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import i, i0, i1, j, k


def test_each_computation_takes_the_command_and_has_an_entry_in_the_log() -> None:
    s = pl.chain()
    several = s.f.schedule(s.p, s.z)
    assert several.split(i, 4, i0, i1) is several
    assert texts(s.f) == ("p.split(i, 4, i0, i1)", "z.split(i, 4, i0, i1)")
    assert repr(several) == "chain.schedule(p, z)"
    assert "parallelize" in dir(several)
    assert several.split.__doc__ == s.p.split.__doc__


def test_computations_that_share_a_loop_take_a_command_on_it_once() -> None:
    s = pl.chain()
    s.q.fuse(s.p, i)
    s.f.schedule(s.p, s.q, s.z).split(i, 4, i0, i1).unroll(i1)
    assert texts(s.f)[1:] == (
        "p.split(i, 4, i0, i1)", "z.split(i, 4, i0, i1)", "p.unroll(i1)", "z.unroll(i1)"
    )  # fmt: skip
    a = np.arange(13, dtype=np.int32)
    assert np.array_equal(s.f.compile()(a), s.f.evaluate(a))


def test_what_each_statement_has_of_its_own_is_changed_for_each() -> None:
    s = pl.chain()
    s.q.fuse(s.p, i)
    s.f.schedule(s.p, s.q).shift(i, 2)
    assert texts(s.f)[1:] == ("p.shift(i, 2)", "q.shift(i, 2)")
    assert s.f.check().ok


def test_if_one_refuses_nothing_is_changed() -> None:
    s = pl.chain()
    s.q.split(i, 4, j, k)
    before = s.f.program
    with pytest.raises(tm.CommandError, match=r"q\.split\(i, 4, i0, i1\): no loop i here: q has the loops j, k"):
        s.f.schedule(s.p, s.q).split(i, 4, i0, i1)
    assert s.f.program is before


def test_handles_that_commands_return_come_as_a_tuple() -> None:
    s = pl.chain()
    (first, rest), (other, end) = s.f.schedule(s.p, s.q).separate_at(i, [4])
    assert [part.name for part in (first, rest, other, end)] == ["p_0", "p_1", "q_0", "q_1"]
    s.f.schedule(first, other).unroll(i)
    a = np.arange(11, dtype=np.int32)
    assert np.array_equal(s.f.compile()(a), s.f.evaluate(a))


@pytest.mark.parametrize("name", ["inn", "init", "name", "_apply"])
def test_what_is_no_command_is_no_attribute(name: str) -> None:
    s = pl.chain()
    with pytest.raises(AttributeError, match="has no command"):
        getattr(s.f.schedule(s.p), name)


def test_commands_of_a_with_statement_are_all_applied_or_none():
    s = pl.pair()
    before = s.f.program
    with pytest.raises(tm.CommandError, match="no loop j"), s.f.all_or_nothing():
        s.p.split(i, 4, i0, i1)
        s.q.parallelize(j)
    assert s.f.program is before
    with s.f.all_or_nothing():
        s.p.split(i, 4, i0, i1)
        s.q.parallelize(i)
    assert texts(s.f) == ("p.split(i, 4, i0, i1)", "q.parallelize(i)")


def test_what_is_declared_among_commands_that_are_taken_back_stays():
    s = pl.pair()
    with pytest.raises(ZeroDivisionError), s.f.all_or_nothing():
        s.p.split(i, 4, i0, i1)
        late = s.f.computation("late", {i: tm.Param("N")}, s.a[i])
        s.q.shift(i, 1 // 0)
    assert texts(s.f) == () and late.name in s.f.algorithm.computations
    late.parallelize(i)
    assert s.f.check().ok
