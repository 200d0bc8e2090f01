"""Samples and early stopping, by a clock that the test winds."""

from __future__ import annotations

import pytest

from tiramisu_py.tuning.search.stopwatch import (
    CLEARLY_SLOWER,
    LONG_SAMPLE,
    SAMPLE_CALLS,
    SAMPLE_SECONDS,
    SHORTEST,
    Call,
    Rivals,
    Samples,
    Stopwatch,
    TimedCalls,
    geometric_mean,
    seconds_of,
)


class Clock:
    """A clock that only calls move on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def taking(self, name: str, *seconds: float) -> Call:
        """A call that takes these times, the last one from then on."""
        left = list(seconds)

        def call() -> None:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def measured(
    clock: Clock, calls: list[Call], rivals: Rivals, repeats: int = 4, before: float = 100.0
) -> tuple[Samples, bool]:
    found = Stopwatch(repeats, clock).measured(clocked(clock, calls, before), rivals)
    assert found.pace == 1.0
    return found.samples, found.stopped


def clocked(clock: Clock, calls: list[Call], before: float = 0.0) -> TimedCalls:
    return TimedCalls(calls, [clock.taking("before", before)] * len(calls))


def test_the_time_is_the_least_sample_and_what_comes_before_is_not_timed() -> None:
    clock = Clock()
    samples, stopped = measured(clock, [clock.taking("call", 5.0, 3.0, 4.0, 6.0)], Rivals())
    assert samples == ((5.0, 3.0, 4.0, 6.0),)
    assert not stopped
    assert seconds_of(samples) == 3.0
    assert clock.calls == ["before", "call"] * 4


def test_a_short_call_is_repeated_within_a_sample() -> None:
    clock = Clock()
    samples, _ = measured(clock, [clock.taking("call", SAMPLE_SECONDS / 7.5)], Rivals(), repeats=2, before=0.0)
    assert samples[0] == pytest.approx((SAMPLE_SECONDS / 7.5,) * 2)
    assert clock.calls.count("call") == 8 + 8


@pytest.mark.parametrize(
    ("seconds", "calls"), [(SAMPLE_SECONDS / 3, SAMPLE_CALLS), (LONG_SAMPLE / 2.5, 3), (LONG_SAMPLE, 1), (3.0, 1)]
)
def test_a_sample_has_several_calls_as_long_as_they_are_not_long(seconds: float, calls: int) -> None:
    clock = Clock()
    samples, _ = measured(clock, [clock.taking("call", seconds)], Rivals(), repeats=2, before=0.0)
    assert samples[0] == pytest.approx((seconds,) * 2)
    assert clock.calls.count("call") == 2 * calls


def test_a_call_that_met_a_taken_core_does_not_say_how_long_a_sample_is() -> None:
    """Of calls of 20 us the first took 12 ms, and in the second sample three of the first four took 4 ms."""
    short, clock = 2e-5, Clock()
    call = clock.taking("call", 1.2e-2, *(short,) * 4, 4e-3, 4e-3, short, 4e-3, short)
    samples, _ = measured(clock, [call], Rivals(), repeats=2, before=0.0)
    assert samples[0] == pytest.approx((short, short))
    assert clock.calls.count("call") == 5 + 5


def test_where_every_call_is_disturbed_the_least_one_counts() -> None:
    clock = Clock()
    samples, _ = measured(
        clock, [clock.taking("call", 1.4e-2, 1.1e-2, 2.4e-2, 1.3e-2)], Rivals(), repeats=3, before=0.0
    )
    assert samples[0] == pytest.approx((1.1e-2, 2.4e-2, 1.3e-2))


def test_a_call_without_a_time_has_the_least_one_that_there_is() -> None:
    clock = Clock()
    ticks = iter((0.0, 0.0, *(0.0, 5e-3) * 8))
    found = Stopwatch(1, lambda: next(ticks)).measured(clocked(clock, [clock.taking("call", 0.0)]), Rivals())
    assert found.samples == ((SHORTEST,),)


def test_cases_take_turns() -> None:
    clock = Clock()
    samples, _ = measured(clock, [clock.taking("a", 1.0), clock.taking("b", 4.0)], Rivals(), repeats=3)
    assert [name for name in clock.calls if name != "before"] == ["a", "b"] * 3
    assert samples == ((1.0,) * 3, (4.0,) * 3)
    assert seconds_of(samples) == pytest.approx(2.0)


@pytest.mark.parametrize(("seconds", "taken"), [(2.1, 1), (1.9, 2), (1.4, 3), (1.19, 6), (0.5, 6)])
def test_a_point_is_stopped_the_earlier_the_slower_it_is(seconds: float, taken: int) -> None:
    assert CLEARLY_SLOWER == (2.0, 1.5, 1.2)
    clock, rivals = Clock(), Rivals()
    rivals.met(((1.0, 1.5),))
    samples, stopped = measured(clock, [clock.taking("call", seconds)], rivals, repeats=6)
    assert len(samples[0]) == taken
    assert stopped == (taken < 6)


def test_one_slow_sample_does_not_stop_a_fast_point() -> None:
    clock, rivals = Clock(), Rivals()
    rivals.met(((1.0,),))
    samples, stopped = measured(clock, [clock.taking("call", 1.9, 0.8, 1.9, 1.9)], rivals)
    assert (len(samples[0]), stopped) == (4, False)


def test_a_point_that_is_slow_at_one_size_is_not_stopped_while_another_may_make_up_for_it() -> None:
    rivals = Rivals()
    rivals.met(((1.0,), (8.0,)))
    rivals.met(((8.0,), (1.0,)))
    assert rivals.best == pytest.approx(geometric_mean([1.0, 8.0]))
    assert not rivals.beat(((3.0,), ()))  # with 1.0 at the other size it would be the best
    assert rivals.beat(((40.0,), ()))
    assert rivals.bound(((3.0,), ())) == pytest.approx(geometric_mean([3.0, 1.0]))


def test_without_rivals_nothing_is_stopped() -> None:
    assert not Rivals().beat(((1e9,),))


def test_a_point_without_all_sizes_has_no_time() -> None:
    assert seconds_of(((1.0,), ())) is None
    assert seconds_of(()) is None


def test_a_point_is_not_stopped_because_the_machine_is_slow() -> None:
    """The best point takes three times as long as before, and this one a little longer than that."""
    clock, rivals = Clock(), Rivals()
    rivals.met(((1.0,),))
    calls, control = clocked(clock, [clock.taking("call", 3.3)]), clocked(clock, [clock.taking("best", 3.0)])
    found = Stopwatch(4, clock).measured(calls, rivals, control=control)
    assert (found.stopped, found.pace) == (False, pytest.approx(3.0))
    assert found.samples[0] == pytest.approx((3.3,) * 4)
    assert [name for name in clock.calls if name != "before"] == ["best", "call"] * 4
    slow = clocked(clock, [clock.taking("call", 6.5)])
    stopped = Stopwatch(4, clock).measured(slow, rivals, control=control)
    assert (len(stopped.samples[0]), stopped.stopped, stopped.pace) == (1, True, pytest.approx(3.0))
    assert Stopwatch(4, clock).measured(calls, rivals).stopped


def test_the_pace_is_never_faster_than_usual() -> None:
    clock, rivals = Clock(), Rivals()
    rivals.met(((1.0,),))
    calls, control = clocked(clock, [clock.taking("call", 0.9)]), clocked(clock, [clock.taking("best", 0.5)])
    assert Stopwatch(2, clock).measured(calls, rivals, control=control).pace == 1.0
