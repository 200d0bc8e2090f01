"""Long runs of `scripts/fuzz`: they go on where they ended, outlive their processes, and write their figures."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle import fuzzing
from tests.oracle.fuzzing import SUMS, Trial
from tests.oracle.product import running, workers
from tests.oracle.product.recording import FIRST, LAST, PAGE, by_quarter, recorded, row
from tests.oracle.product.running import Running, summary
from tests.oracle.product.state import STRICT_SUMS, State, known, reason


class Played:
    """A campaign whose programs have been played out: all accepted, but for a few."""

    does = "nothing"

    def __init__(self, name: str, seeds: Iterator[int], wanted: fuzzing.Wanted, shrinks: bool) -> None:
        self.name, self.seeds = name, seeds

    def trials(self) -> Iterator[Trial]:
        for seed in self.seeds:
            if seed % 100 == 50:
                if self.does == "ends":
                    os._exit(3)
                if self.does == "hangs":
                    time.sleep(60)
            came = "unsound" if seed == 107 else "strict" if seed % 100 == 5 else "accepted"
            yield Trial(self.name, seed, came, verdict="bounds: c0[3] reads a0[4] at N = 3", by={"judged"})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> type[Played]:
    monkeypatch.setattr(workers, "Campaign", Played)
    return Played


def run(folder: Path, chunks: int, seed: int = 100) -> State:
    """So many chunks in one process."""
    state = known(folder, seed)
    run = Running(state, folder, ("any",))
    last = state.next + chunks - len(state.unfinished)
    while state.next < last or run.chunks:
        if not run.chunks:
            run.chunks.append(workers.begun(state.taken(), state.seed, ("any",)))
        run._listen()
    return known(folder, seed)


def test_a_run_goes_on_where_it_ended(played: type[Played], tmp_path: Path) -> None:
    first = run(tmp_path, 1)
    assert (first.next, first.programs, first.total("unsound")) == (1, workers.CHUNK, 1)
    second = run(tmp_path, 1)
    assert (second.next, second.programs) == (2, 2 * workers.CHUNK)
    assert [(each["seed"], each["came"]) for each in second.finds] == [
        (105, "strict"),
        (107, "unsound"),
        (205, "strict"),
    ]
    assert {path.name for path in (tmp_path / "finds").iterdir()} >= {"any_107_unsound.json", "any_105_strict.json"}
    assert second.reasons == Counter({reason("bounds: c0[3] reads a0[4] at N = 3"): 2})
    assert "any: " in summary(second)


def test_what_was_under_way_is_done_again(tmp_path: Path) -> None:
    state = State(1)
    assert [state.taken(), state.taken()] == [0, 1]
    state.write(tmp_path, [1])
    again = known(tmp_path, 1)
    assert [again.taken(), again.taken()] == [1, 2]


@pytest.mark.parametrize("does", ["ends", "hangs"])
def test_a_process_that_ends_or_hangs_is_a_find(
    does: str, played: type[Played], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(played, "does", does)
    monkeypatch.setattr(workers, "SILENCE", 2.0)
    state = run(tmp_path, 1)
    came = {"ends": "ended", "hangs": "hangs"}[does]
    assert [(each["seed"], each["came"]) for each in state.finds][-1] == (150, came)
    assert state.programs == 50


def test_a_process_that_has_slept_with_the_machine_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time counts where somebody listened, a few seconds each look."""
    now = [0.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    chunk = workers.Chunk(0, "any", None, None, looked=0.0)  # type: ignore[arg-type]
    now[0] = 10_000.0
    assert not chunk.looked_at()
    for _ in range(int(workers.SILENCE / workers.LOOK)):
        now[0] += 100.0
        last = chunk.looked_at()
    assert last


def test_no_minutes_are_no_programs(tmp_path: Path) -> None:
    assert Running(State(1), tmp_path, ("any",)).run(0, 1) == 0
    assert not list(tmp_path.iterdir())


def test_the_page_has_one_row_for_each_seed_and_sums() -> None:
    counts = Counter({"judged": 100, "compiled": 9, "run": 8, "strict": 3, SUMS: 50, STRICT_SUMS: 2})
    state = State(5, seconds=7200.0, processes=2, counts={"any": counts}, code=["abc", "abd+"])
    state.finds = [{"kind": "any", "seed": 6, "came": "strict", "after": 10}]
    state.reasons = Counter({"overwritten: x": 2})
    state.has_taken(1.25, "any 7")
    state.has_taken(0.5, "any 8")
    page = f"before\n\n{FIRST}\n\n{LAST}\nafter\n"
    once = recorded(page, state, "2026-01-02")
    assert once.startswith("before\n") and once.endswith("\nafter\n")
    cells = "| 2026-01-02 | abc, abd+ | 5 | 4.00 | 100 | 9 | 8 | 0 | 3 of 100 (3.00 %) | 2 of 50 (4.00 %) | 0 "
    assert f"{cells}| 40.0, 0.0, 0.0, 0.0 | 1.2 (any 7) |" in once
    assert "\n- 2: overwritten: x\n" in once
    assert recorded(once, state, "2026-01-03").count("\n| 20") == 1
    both = recorded(once, State(6, counts={"any": Counter({"judged": 1900, "strict": 1})}), "2026-01-03")
    assert both.count("\n| 20") == 2 and "of x" not in both
    assert "| in all |  |  | 4.00 | 2,000 | 9 | 8 | 0 | 4 of 2,000 (0.20 %) | 2 of 50 (4.00 %) | 0 |  |  |" in both
    assert "2,000 programs have been judged, 1 % of the 200,000" in both
    assert by_quarter(state) == "40.0, 0.0, 0.0, 0.0" and row(state, "x")[0] == "x"


def test_a_state_is_the_same_when_read_again(tmp_path: Path) -> None:
    state = State(5, 1, code=["abc"])
    state.has_taken(1.25, "any 7")
    state.write(tmp_path, [])
    assert known(tmp_path, 5) == state
    (tmp_path / "state.json").write_text('{"format": 1, "seed": 5, "next": 1, "counts": {}, "reasons": {}}')
    assert known(tmp_path, 5) == State(5, 1)


def test_the_page_on_trust_has_the_table() -> None:
    assert FIRST in PAGE.read_text() and LAST in PAGE.read_text()


def test_messages_of_one_form_are_counted_together() -> None:
    one = reason(
        "the judge finds nothing: overwritten: p[2] reads p[0], where p[1] has been written, at N = 2\n  command: x"
    )
    two = reason(
        "the judge finds nothing: overwritten: c3[0, 0] reads c1[0, 1], where c1[1] has been written, at N = 9, M = 1"
    )
    assert one == two and one.startswith("overwritten")


def test_kinds_of_chunks_are_kinds_of_programs() -> None:
    assert {*workers.TURNS} == {*fuzzing.KINDS}
    assert running.GRACE < workers.SILENCE
