"""Facts of computations, compared with what is seen by going through small domains."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import queries

N, M = tm.params("N M")
i, j, k, i0, i1, d = tm.iters("i j k i0 i1 d")
D = tm.float64


def picture() -> tm.Function:
    f = tm.Function("picture", params=[N, M])
    a = f.input("a", D, [2 * N + 2, M + 1])
    total = f.reduction("total", {i: N, j: M}, {k: 3}, tm.sum, a[2 * i + 1, j] * a[j % 2, k + j] + a[i, j])
    f.outputs(f.computation("out", {i: N, j: M}, total[i, j] + 1))
    return f


def elements(f: tm.Function, name: str, **at: int) -> list[dict[str, int]]:
    """The points of a computation at sizes, by their iterators."""
    declared = f.algorithm.computations[name]
    box = [range(at["N"]), range(at["M"]), range(3)][: len(declared.point_iterators)]
    return [dict(zip(declared.point_iterators, point, strict=True)) for point in product(*box)]


def test_reads_are_the_linear_forms_of_their_indices() -> None:
    f = picture()
    found = queries.facts(f["total"])
    assert (found.sources, found.readers, found.terms) == (("a",), ("out",), ("k",))
    assert found.extents == {"i": None, "j": None, "k": 3}
    assert found.steps("j") == {"a": [1, None, 1]}
    assert found.steps("i") == {"a": [queries.ANOTHER_ROW, None, queries.ANOTHER_ROW]}
    for read in found.reads:
        for axis, form in enumerate(read.forms):
            if form is None:
                continue
            for point in elements(f, "total", N=3, M=4):
                here = sum(factor * point[name] for name, factor in form.items()) + (read.constants[axis] or 0)
                assert here == eval(str(read.access.indices[axis]), {}, point)


def test_a_loop_that_carries_a_dependence_is_said_to() -> None:
    f = tm.Function("walk", params=[N, M])
    a = f.input("a", D, [N, M])
    u = f.computation("u", {i: N, j: M}, lambda u: tm.select(i == 0, a[i, j], u[i - 1, j] + a[i, j]))
    f.outputs(u)
    found = queries.facts(f["u"])
    assert found.is_recurrent and [(loop.name, loop.carries) for loop in found.loops] == [("i", True), ("j", False)]
    f["u"].split(j, 4, i0, i1)
    assert [(loop.name, loop.iterator, loop.carries) for loop in queries.facts(f["u"]).loops] == [
        ("i", "i", True), ("i0", None, False), ("i1", "j", False),
    ]  # fmt: skip


def test_the_forms_of_loops_make_the_same_loops() -> None:
    f = tm.Function("turned", params=[N, M])
    a = f.input("a", D, [N, M])
    b = f.computation("b", {i: N, j: M}, 2 * a[i, j])
    f.outputs(b)
    b.split(j, 4, i0, i1)
    b.skew(i, i0, 3)
    b.reverse(i)
    forms = queries.loop_forms(f.program.statements["b"])
    names = f.program.loop_names(f.program.statements["b"])
    again = tm.Function.of(f.algorithm)
    again["b"].set_schedule({tm.Iter(name): form for name, form in zip(names, forms, strict=True)})
    for n, m in product(range(3), range(7)):
        for point in product(range(n), range(m)):
            at = dict(zip(("i", "j"), point, strict=True))
            assert (
                at["j"] // 4 + 3 * at["i"] == eval(str(forms[1]), {}, at) and eval(str(forms[2]), {}, at) == at["j"] % 4
            )
    given = np.random.default_rng(0).random((5, 11))
    np.testing.assert_array_equal(again.compile()(given), 2 * given)


@pytest.mark.parametrize(
    ("loops", "words"),
    [
        ({i0: lambda a: a[i, j]}, "the loop i0 of a time map is a[i, j], and a[i, j] is no linear form of i, j"),
        ({"i": lambda a: i}, "'i' is no loop of a time map: name loops by iterators"),
        ({i0: lambda a: "i"}, "the loop i0 of a time map is 'i', and no form of iterators"),
        ({i0: lambda a: i}, "the time map '{i0: i}' puts several instances of b at one time"),
    ],
)
def test_loops_that_are_no_forms_are_refused(loops: dict[Any, Any], words: str) -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", D, [N, M])
    b = f.computation("b", {i: N, j: M}, 2 * a[i, j])
    f.outputs(b)
    with pytest.raises(tm.CommandError) as refused:
        b.set_schedule({loop: form(a) for loop, form in loops.items()})
    assert words in str(refused.value) and f.commands == ()


def test_forms_of_loops_are_saved_and_pasted(tmp_path: Any) -> None:
    f = tm.Function("f", params=[N, M])
    a = f.input("a", D, [N, M])
    b = f.computation("b", {i: N, j: M}, 2 * a[i, j])
    f.outputs(b)
    b.set_schedule({d: i + j, j: j})
    f.save(tmp_path / "f.json")
    assert tm.load(tmp_path / "f.json").commands == f.commands
    g = tm.Function.of(f.algorithm)
    exec(queries.as_script(f.commands), {"f": g, "tm": tm})
    assert g.commands == f.commands
    by_text = tm.Function.of(f.algorithm)
    by_text["b"].set_schedule("{ [i, j] -> [d, j] : d = i + j }")
    assert by_text.source() == f.source()


def test_sizes_that_facts_allow_bound_the_iterations() -> None:
    f = tm.Function("f", params=[N, M], assume="2 <= N <= 9 and M >= N")
    a = f.input("a", D, [M])
    f.outputs(f.computation("b", {i: (1, N), j: M}, a[j] * i))
    declared = f.algorithm.computations["b"]
    rows, columns = (queries.Iterations(f.program, declared, name) for name in ("i", "j"))
    assert (rows.most, rows.begin_at_0, rows.are_constant) == (8, False, False)
    assert rows.reach(1) and not rows.reach(2)
    assert (columns.most, columns.begin_at_0, columns.reach(1), columns.reach(2)) == (None, True, True, False)
    assert queries.is_box(declared) and queries.extents(declared) == [8, None]


def test_points_are_the_same_where_iterators_change_places() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", D, [N, N])
    f.outputs(
        f.reduction("rows", {i: N}, {j: (0, i + 1)}, tm.sum, a[i, j]),
        f.reduction("columns", {j: N}, {i: (j, N)}, tm.sum, a[i, j]),
        f.reduction("others", {j: N}, {i: (j + 1, N)}, tm.sum, a[i, j]),
    )
    rows, columns, others = (f.algorithm.computations[name] for name in ("rows", "columns", "others"))
    assert queries.same_points(rows, ["i", "j"], columns, ["i", "j"])
    assert not queries.same_points(rows, ["i", "j"], columns, ["j", "i"])
    assert not queries.same_points(rows, ["i", "j"], others, ["i", "j"])
    assert not queries.is_box(rows)


def test_conditions_on_remainders_have_their_moduli() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", D, [N, 3])
    term = tm.select((i + k) % 2 == 0, a[i, k], 0.0)
    plain = f.reduction("plain", {i: N}, {k: 3}, tm.sum, term)
    f.outputs(plain, f.reduction("t", {i: N}, {k: 3}, tm.sum, a[i, k], where=(i + k) % 2 == 0))
    assert queries.congruences(f.algorithm.computations["plain"]) == []
    (found,) = queries.congruences(f.algorithm.computations["t"])
    assert (found.iterators, found.modulus, found.is_plain) == (("i", "k"), 2, True)
