"""`scripts/fuzz`: programs of every kind pass, and one that a judge finds wrong is named with its seed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.oracle import fuzzing, seeds
from tests.oracle.agreeing import one_source
from tests.oracle.agreeing.after_passes import wrong_after_a_pass
from tests.oracle.agreeing.agreement import Call, Verdict
from tests.oracle.generators import script as generated
from tests.oracle.generators.script import Script
from tests.oracle.kinds import KINDS, larger
from tests.oracle.product import workers
from tests.oracle.product.__main__ import main
from tests.oracle.product.state import DEFECTS
from tiramisu_py.backends import emit
from tiramisu_py.backends.c import Emitted
from tiramisu_py.ir import LoopFunction
from tiramisu_py.passes import PIPELINE


def test_a_few_programs_of_some_kinds_pass(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--programs", "2", "--seed", "1", "--kinds", "any", "patterns"])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.startswith("first seed 1\n") and said.endswith("\n0 failed\n")
    assert "\nany: " in said and "\npatterns: " in said and "\ncores: " not in said


def accepted(seed: int = 0) -> int:
    """The first seed of a program that is proven."""
    return next(s for s in range(seed, seed + 100) if KINDS["any"].made(s).function.check().ok)


@cache
def proven_with(word: str) -> Script:
    """A short program for cores that is proven, with a command of this name, or an option."""
    programs = (script for script in map(KINDS["cores"].made, range(1000)) if "time_tile" not in script.text)
    return next(script for script in programs if word in script.text and script.function.check().ok)


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


#: What a clock says that goes on when `late` is called.
CLOCK = [0.0]
DECLARATIONS = (
    "from tests.oracle.test_fuzzing import late",
    "N, = tm.params('N')",
    "i, x0, x1 = tm.iters('i x0 x1')",
    "f = tm.Function('f', params=[N], assume='N >= 0')",
    "a = f.input('a', tm.int32, [N])",
    "b = f.computation('b', {i: N}, a[i] + 1)",
    "c = f.computation('c', {i: N}, a[i] + 2)",
    "f.outputs(b, c)",
)
#: What takes long: the lines that are given, and those before it that are needed for that.
SLOW = {
    "command": (("b.reverse(late(i))",), DECLARATIONS[:6]),
    "refused": (("b.split(i, late(0), x0, x1)",), DECLARATIONS[:6]),
    "check": (("f.check = late(f.check)", "f.check()"), (*DECLARATIONS[:2], DECLARATIONS[3])),
}


def late(given: object) -> object:
    """What is given, after twelve seconds; or a function that takes them."""

    def called() -> object:
        CLOCK[0] += 12
        return given() if callable(given) else given

    return called if callable(given) else called()


@pytest.mark.parametrize("what", SLOW)
def test_a_command_or_a_check_that_takes_long_is_a_find(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its verdict is; the find is small, and ends with what took long."""
    monkeypatch.setattr(generated, "time", SimpleNamespace(process_time=lambda: CLOCK[0]))
    lines, needed = SLOW[what]

    def made(seed: object) -> Script:
        commands = ["c.split(i, 2, x0, x1)", *(lines[:1] if seed == 1 else []), "c.unroll(x1)"]
        return generated.replayed([*DECLARATIONS, *commands], len(DECLARATIONS))

    monkeypatch.setattr(fuzzing, "KINDS", {"any": replace(KINDS["any"], made=made)})
    campaign = fuzzing.Campaign("any", range(3), fuzzing.Wanted(3, 0), shrinks=False)
    trials = [*campaign.trials()]
    assert [trial.came for trial in trials] == ["accepted", "slow", "accepted"]
    assert f"slow: any, seed 1: {lines[-1]} took 12.0 s of the processor, more than 10\n" in trials[1].text
    assert trials[1].seconds == (12.0 if what == "check" else 0.0)
    find = workers._find(campaign, trials[1])
    assert find.came == "slow" and find.came in DEFECTS
    assert find.lines == (*needed, *lines)
    assert find.script().slowest.too_long


def test_programs_of_one_source_have_kernels_of_their_own() -> None:
    """What they define alike, vectors and versions for constant sizes, is there once, or under other names."""
    scripts = {f"f_{number}": proven_with(word) for number, word in enumerate(("specialize", "nontemporal", "mask"))}
    made = one_source.kernels(scripts)
    assert len({kernel.library for kernel in made.values() if isinstance(kernel, tm.Kernel)}) == 1
    for name, script in scripts.items():
        kernel = made[name]
        assert isinstance(kernel, tm.Kernel), kernel
        assert not any(Call(script, params, 1).wrong_kernel(kernel) for params in larger(script))


def test_a_program_that_does_not_compile_is_told_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: LoopFunction) -> Emitted:
        emitted = emit(function)
        text = {"bad.c": emitted["bad.c"] + "static int nobody_uses_it;\n"} if function.name == "bad" else {}
        return replace(emitted, files={**emitted.files, **text})

    monkeypatch.setattr(one_source, "emit", broken)
    script = KINDS["any"].made(accepted())
    made = one_source.kernels({"good": script, "bad": script})
    assert isinstance(made["good"], tm.Kernel)
    assert "nobody_uses_it" in str(made["bad"])


def test_the_pass_after_which_loops_are_wrong_is_named() -> None:
    script = proven_with("mask")
    seen: list[LoopFunction] = []

    def wrong(function: LoopFunction) -> str:
        seen.append(function)
        return "wrong" if len(seen) == 2 else ""

    said = wrong_after_a_pass(script, wrong)
    assert said.removeprefix("after ").removesuffix(": wrong") in PIPELINE.names, said
    assert len(seen) == 2
    assert wrong_after_a_pass(script, lambda _: "") == ""


def test_no_time_is_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--minutes", "0"]) == 0
    assert (
        f"first seed {seeds.OF_SCRIPT * seeds.REGION + seeds.of_commit(seeds.commits())}\n" in capsys.readouterr().out
    )


def test_each_commit_has_seeds_of_its_own_and_none_leaves_its_region() -> None:
    firsts = [seeds.of_commit(number) for number in range(2000)]
    assert len(set(firsts[:900])) == 900
    assert all(0 <= first <= seeds.REGION - 100 * seeds.OF_A_COMMIT for first in firsts)


def test_without_git_the_first_seed_is_nought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert seeds.commits() == 0
