"""Each extension of docs/extending.md does what its page says, and refuses what it should."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.extending import scalar_type
from tests.extending.command import Halve
from tests.extending.condition import CONDITION
from tests.extending.drop_comments import PIPELINE
from tests.extending.instruction import add_within_a_byte
from tests.extending.scalar_type import ENTRIES, float128
from tiramisu_py.function.applying.public_commands import command
from tiramisu_py.interpret import run
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise
from tiramisu_py.proof import theorem
from tiramisu_py.schedule.command_fields import Whole

(N,), (i, j) = tm.params("N"), tm.iters("i j")
b = Whole("b", "b", "b")
HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "extending.md"


def doubled(dtype: tm.DType = tm.float32) -> tm.Function:
    f = tm.Function("doubled", params=[N])
    a = f.input("a", dtype, [N])
    f.outputs(f.computation("b", {i: N}, a[i] * 2 + 1))
    return f


def test_a_command_is_applied_proven_and_written_as_a_user_would() -> None:
    f = tm.Function.of(doubled().algorithm, [Halve(b, i)])
    assert str(f.commands[-1]) == "b.halve(i)" and Halve(b, i) == f.commands[-1] != Halve(b, j)
    assert f.check().ok and "for i_1 in 0 .. min(2, N - 2 * i_0)" in f.show("pseudocode")
    a = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(a), 2 * a + 1)
    with pytest.raises(tm.CommandError, match=r"b\.halve\(j\): .*no loop j"):
        tm.Function.of(doubled().algorithm, [Halve(b, j)])


def test_a_public_method_is_one_line_of_its_command() -> None:
    class Halved(tm.Computation):
        halve = command(Halve)

    f = doubled()
    assert str(signature(Halved.halve)) == "(self, loop: 'Iter') -> 'Self'" and Halved.halve.__doc__ == Halve.__doc__
    assert isinstance(Halved(f, "b").halve(i), Halved) and str(f.commands[-1]) == "b.halve(i)"
    with pytest.raises(tm.CallError, match=r"b\.halve\(\) lacks loop"):
        Halved(f, "b").halve()  # type: ignore[call-arg]


def test_a_condition_refuses_with_a_repair_that_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem, "CONDITIONS", (*theorem.CONDITIONS, CONDITION))
    f = doubled()
    f["b"].vectorize(i, 32)
    (violation,) = f.check().violations
    assert (violation.message, violation.command, violation.repair) == (
        "the vector loop i of b has 32 lanes, more than 16", "b.vectorize(i, 32)", "b.vectorize(i, 16)",
    )  # fmt: skip
    f.undo()
    f["b"].vectorize(i, 16)
    assert "vectors have at most 16 lanes" in f.check().proven


def test_a_pass_changes_the_text_and_no_value() -> None:
    f = doubled()
    f["b"].vectorize(i, 4)
    plain = lower(f.completed)
    assert "# b[i] = a[i] * 2 + 1" in tm.Function.of(f.algorithm, f.commands).show("pseudocode")
    shorter = optimise(plain, pipeline=PIPELINE)
    a, found = np.arange(11, dtype=np.float32), np.zeros(11, np.float32)
    run(shorter, {"a": a, "b": found}, {"N": 11})
    np.testing.assert_array_equal(found, 2 * a + 1)
    assert "Comment(" in str(optimise(plain)) and "Comment(" not in str(shorter)


def test_an_instruction_is_its_meaning_in_numpy_for_all_bytes() -> None:
    f = tm.Function("sums")
    x, y = f.input("x", tm.uint8, [256]), f.input("y", tm.uint8, [256])
    f.outputs(f.computation("z", {i: 256, j: 256}, add_within_a_byte(x[i], y[j])))
    each = np.arange(256, dtype=np.uint8)
    expected = np.minimum(each[:, None].astype(int) + each, 255)
    np.testing.assert_array_equal(f.compile()(each, each), expected)
    np.testing.assert_array_equal(f.evaluate(x=each, y=each), expected)


@pytest.mark.skipif(np.dtype(np.longdouble).name != "float128", reason="no long double of 16 bytes on this machine")
def test_a_scalar_type_of_the_tables_is_computed_with_its_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalar_type.types, "STRONG", (*scalar_type.types.STRONG, float128))
    for table, key, entry in ENTRIES:
        monkeypatch.setitem(table, key, entry)
    f = doubled(float128)
    a = np.array([1, 2**-60, -(2**62)], np.longdouble)
    expected = 2 * a + 1
    assert expected[1] != 1
    np.testing.assert_array_equal(f.evaluate(a=a), expected)
    np.testing.assert_array_equal(f.compile()(a), expected)


def test_the_page_quotes_the_extensions_and_names_files_that_are_there() -> None:
    page, sources = PAGE.read_text(), [path.read_text() for path in HERE.glob("*.py")]
    quoted = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(quoted) == 7 and all(any(text in source for source in sources) for text in quoted)
    root = PAGE.parent.parent
    places = [root, root / "tiramisu_py", root / "docs", root / "tiramisu_py" / "backends" / "c"]
    named = re.findall(r"`([\w/]+(?:/|\.(?:py|h|md|toml)))`", page)
    assert len(named) > 30 and [name for name in named if not any((place / name).exists() for place in places)] == []
