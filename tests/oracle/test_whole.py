"""The generator of programs for all targets: it knows every command and every kind of algorithm."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cached_property
from pathlib import Path

import pytest

import tiramisu_py as tm
from scripts.command_reference import members
from tests.oracle.agreeing import whole_agreement
from tests.oracle.generators.whole.algorithms import WholeAlgorithms
from tests.oracle.generators.whole.commands import (
    _OF_GPUS,
    _OF_RANKS,
    ASKED,
    COMMANDS,
    DECLARED,
    ELSEWHERE,
    WEIGHTS,
    EveryCommand,
)
from tests.oracle.generators.whole.scripts import random_whole_script
from tests.oracle.kinds import KINDS
from tests.oracle.seeds import first_of

#: Handles, and the function: what they offer is commands, but for what only asks.
HANDLES = (
    tm.Function, tm.Input, tm.Computation, tm.Reduction, tm.Selection, tm.Transfer, tm.Exchange, tm.Half, tm.Wait,
    tm.Barrier,
)  # fmt: skip


def test_every_public_command_is_drawn() -> None:
    """A new command has to be added to the generator, with a writer that gives it."""
    public = {name for cls in HANDLES for name, _ in members(cls)}
    assert public == {*COMMANDS, *DECLARED, *ASKED, *ELSEWHERE}
    assert all((Path(__file__).parents[2] / place).exists() for place in ELSEWHERE.values())
    assert not {*COMMANDS} & {*DECLARED} and not {*COMMANDS, *DECLARED} & ASKED


def test_every_writer_is_there_and_drawn() -> None:
    drawn = {*WEIGHTS, *_OF_GPUS, *_OF_RANKS}
    for command, writers in COMMANDS.items():
        for writer in writers:
            assert callable(getattr(EveryCommand, f"_{writer}")), (command, writer)
            assert writer in drawn, (command, writer)


def test_programs_are_of_all_kinds() -> None:
    """Ranks, types, domains and declarations of which the generator says that it makes them."""
    texts = [WholeAlgorithms(random.Random(seed)).written().text for seed in range(120)]
    counts = Counter(len(re.findall(r"^c\d+ = ", text, re.MULTILINE)) for text in texts)
    assert {*counts} >= set(range(1, 7)) | {8}
    together = "\n".join(texts)
    types = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
    for word in (
        *(f"tm.{dtype}" for dtype in (*types, "float16", "bfloat16", "float32", "float64")),
        "f.scan(", "chunks=", "f.scatter(", "tm.argmin", "tm.operator(", "commutative=False", "lambda c", "mod 2",
        " or ", ", l: ", "'c0', {}", "keys[i], keys[i + 1]", "ordered=True", "exclusive=True",
        "j: i + 1", "where=", "a0[keys[", "tm.select(", ".reshape([",
    ):  # fmt: skip
        assert word in together, word


def test_special_values_are_among_inputs_and_facts_hold() -> None:
    seen: set[str] = set()
    for seed in range(first_of(0, 0), first_of(0, 0) + 30):
        script = WholeAlgorithms(random.Random(seed)).written()
        if not script.function.check().ok:
            continue
        call = whole_agreement.WholeCall(script, whole_agreement.small(script)[-1], seed)
        for name, array in call.given.items():
            source = script.program.algorithm.inputs[name]
            if source.values is not None:
                assert not source.monotone or list(array) == sorted(array)
                assert not source.permutation or sorted(array) == list(range(array.size))
            elif source.dtype.is_float:
                seen |= {str(value) for value in array.ravel().astype("float64")}
    assert {"nan", "inf", "-inf", "-0.0"} <= seen


def test_code_with_a_wrong_value_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a compiler in a program of its own: what `evaluate()` says is made another value."""
    accepted = (s for s in range(100) if KINDS["whole"].compiles(random_whole_script(s)))
    seed = next(s for s in accepted if random_whole_script(s).function.check().ok)
    script, on = random_whole_script(seed), whole_agreement.machine(2)
    assert whole_agreement.wrong_code([script], [seed], on) == [""]
    right = whole_agreement.WholeCall.expected.func  # type: ignore[attr-defined]
    changed = cached_property(lambda call: {name: ~(array == array) for name, array in right(call).items()})
    changed.__set_name__(whole_agreement.WholeCall, "expected")
    monkeypatch.setattr(whole_agreement.WholeCall, "expected", changed)
    (said,) = whole_agreement.wrong_code([script], [seed], on)
    assert said.startswith(f"{on}: at ")


def test_same_seed_same_program() -> None:
    assert random_whole_script(7).text == random_whole_script(7).text


@pytest.mark.parametrize("target", ["cores", "gpu", "ranks"])
def test_all_targets_come(target: str) -> None:
    assert any(whole_agreement.target_of(random_whole_script(seed)) == target for seed in range(40))
