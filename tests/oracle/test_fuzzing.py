"""`scripts/fuzz`: programs of every kind pass, and one that a judge finds wrong is named with its seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.oracle import fuzzing, seeds
from tests.oracle.agreement import Verdict
from tests.oracle.fuzzing import main
from tests.oracle.kinds import KINDS


def test_a_few_programs_of_some_kinds_pass(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--programs", "2", "--seed", "1", "--kinds", "any", "patterns"])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.startswith("first seed 1\n") and said.endswith("\n0 failed\n")
    assert "\nany: " in said and "\npatterns: " in said and "\ncores: " not in said


def accepted(seed: int = 0) -> int:
    """The first seed of a program that is proven."""
    return next(s for s in range(seed, seed + 100) if KINDS["any"].made(s).function.check().ok)


def unsound(_script: object, _seed: int) -> Verdict:
    return Verdict("unsound", "accepted, but not so")


@pytest.mark.parametrize(
    ("came", "change"),
    [
        ("unsound", {"compared": unsound}),
        ("loops", {"wrong_loops": lambda drawn: "a value is 1, not 2"}),
        ("code", {"wrong_code": lambda programs: ["a value is 1, not 2" for _ in programs]}),
        ("raised", {"wrong_code": lambda programs: 1 // 0}),
    ],
)
def test_what_fails_is_named_with_its_seed_and_the_next_is_tried(
    came: str, change: dict[str, object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzzing, "KINDS", {"any": replace(KINDS["any"], **change)})  # type: ignore[arg-type]
    seed = accepted()
    assert main(["--programs", "2", "--seed", str(seed), "--kinds", "any"]) == 1
    said = capsys.readouterr().out
    assert f"{came}: any, seed {seed}: " in said
    assert f"again: scripts/fuzz --programs 1 --seed {seed} --kinds any\n" in said
    assert sum(f"seed {number}" in said for number in (seed, seed + 1)) >= 1 and said.count("\nany: ") == 1


def test_no_time_is_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--minutes", "0"]) == 0
    assert f"first seed {seeds.first_of(seeds.OF_SCRIPT)}\n" in capsys.readouterr().out


def test_each_commit_has_seeds_of_its_own_and_none_leaves_its_region() -> None:
    firsts = [seeds.of_commit(number) for number in range(2000)]
    assert len(set(firsts[:900])) == 900
    assert all(0 <= first <= seeds.REGION - 100 * seeds.OF_A_COMMIT for first in firsts)


def test_without_git_the_first_seed_is_nought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert seeds.commits() == 0
