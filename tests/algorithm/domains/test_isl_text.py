"""isl text of the user's is read whole, or refused with what is left over."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j = tm.iters("i j")

LEFT_OVER = [
    ("[N] -> { [i] : 0 <= i < N } - { [i] : i = 2 }", "- { [i] : i = 2 }", lambda n: [k for k in range(n) if k != 2]),
    ("[N] -> { [i] : 0 <= i < 2 } + { [i] : N - 2 <= i < N }", "+ {", lambda n: [0, 1, n - 2, n - 1]),
    ("[N] -> { [i] : 0 <= i < 2 } union { [i] : i = 5 }", "union {", lambda n: [0, 1, 5]),
    ("[N] -> { [i] : 0 <= i < 2 }, { [i] : i = 5 }", ", {", lambda n: [0, 1, 5]),
    ("[N] -> { [i] : 0 <= i < 2 }; { [i] : i = 5 }", "; {", lambda n: [0, 1, 5]),
    ("[N] -> { [i] : 0 <= i < N } * { [i] : i >= 3 }", "* {", lambda n: list(range(3, n))),
    ("[N] -> { [i] : 0 <= i < N } and more", "and more", None),
    ("[N] -> { [i] : 0 <= i < N } }", "}", None),
]


def _ones(domain: str) -> tm.Function:
    f = tm.Function("f", params=[N], assume="N >= 6")
    f.outputs(f.computation("o", domain, tm.cast(tm.int32, i * 0 + 1), shape=[N + 6]))
    return f


@pytest.mark.parametrize(("text", "left", "meant"), LEFT_OVER)
def test_what_is_left_over_of_a_domain_is_quoted_and_written_in_one_set_where_that_has_a_meaning(text, left, meant):
    with pytest.raises(tm.DeclarationError) as refused:
        _ones(text)
    said = str(refused.value)
    assert f"'{left}" in said and "is left over" in said
    assert ('write "' in said) == (meant is not None)
    if meant is not None:
        domain = said.split('write "')[1].split('"', maxsplit=1)[0]
        assert np.flatnonzero(_ones(domain).evaluate(N=8)).tolist() == meant(8)


@pytest.mark.parametrize("comment", ["# all of it", "# { } and - { [i] : i = 2 }"])
def test_a_comment_is_no_rest(comment):
    assert _ones(f"[N] -> {{ [i] : 0 <= i < N }} {comment}").evaluate(N=6).sum() == 6


@pytest.mark.parametrize(
    ("assume", "said"),
    [
        ("N >= 6 } and N <= 7", "'} and N <= 7' is left over"),
        ("N >= 6 } ; { : N = 3", "is left over"),
        ("N => 6", "write >= for =>"),
        ("N ≥ 6", "write >= for ≥"),
        ("N * N > 6", "is not affine"),
        ("N > 2.5", "numbers are integers"),
        ("M > 2", "M is no parameter"),
        ("N >= 6 or", "syntax error"),
    ],
)
def test_an_assumption_is_a_condition_as_a_whole(assume, said):
    with pytest.raises(tm.DeclarationError, match=r"the assumption .* is not a condition that isl reads") as refused:
        tm.Function("f", params=[N], assume=assume)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("assume", "sizes"),
    [
        ("N == 6", [6]),
        ("N = 6", [6]),
        ("N >= 6 && N < 8", [6, 7]),
        ("N >= 6 & N < 8", [6, 7]),
        ("N = 2 || N = 4", [2, 4]),
        ("N != 3 and N < 5", [0, 1, 2, 4]),
        ("N % 4 == 0 and N < 9", [0, 4, 8]),
        ("exists k : N = 5k and N < 11", [0, 5, 10]),
        ("N >= 6 and N < 8 # few", [6, 7]),
    ],
)
def test_an_assumption_may_be_written_as_in_other_languages(assume, sizes):
    f = tm.Function("f", params=[N], assume=assume)
    f.outputs(f.computation("o", {i: N}, tm.cast(tm.int32, i)))
    kernel = f.compile()
    for n in range(12):
        if n in sizes:
            assert kernel(N=n).tolist() == list(range(n))
        else:
            with pytest.raises(tm.ArgumentError):
                kernel(N=n)


@pytest.mark.parametrize(
    ("text", "left"), [("{ [i] -> [i] } + { [i] -> [i + 1] }", "+ {"), ("{ [i] -> [i] } so", "so")]
)
def test_what_is_left_over_of_a_time_map_is_quoted(text, left):
    f = tm.Function("f", params=[N])
    o = f.computation("o", {i: N}, tm.cast(tm.int32, i))
    f.outputs(o)
    with pytest.raises(tm.CommandError, match="is left over") as refused:
        o.set_schedule(text)
    assert f"'{left}" in str(refused.value)
    assert f.commands == ()


def test_a_domain_of_negative_extent_is_refused():
    f = tm.Function("f", params=[N])
    with pytest.raises(tm.DeclarationError, match="i in the domain of o has the extent -1; extents are at least 0"):
        f.computation("o", {i: -1}, i)


def test_a_range_of_python_is_written_as_a_pair():
    f = tm.Function("f", params=[N])
    with pytest.raises(tm.DeclarationError, match=r"i in the domain of o has range\(2, 5\): write i: \(2, 5\); iter"):
        f.computation("o", {i: range(2, 5)}, i)
    f.outputs(f.computation("o", {i: (2, 5)}, i, shape=[5]))
    assert f.check().ok


def test_a_number_that_is_an_index_or_an_extent_may_be_clipped_or_a_parameter():
    f = tm.Function("f", params=[N], assume="N >= 1")
    a, s = f.input("a", tm.int32, [N]), f.scalar("s", tm.int32)
    with pytest.raises(tm.DeclarationError, match=r"s is not declared .*; make it a parameter: \(s,\) = tm"):
        f.computation("p", {i: s}, i)
    f.outputs(f.computation("o", {i: N}, a[s]))
    (refused,) = f.check().violations
    assert refused.repair == "clip s with tm.clip, or make it a parameter, of which assume= may state a range"
    g = tm.Function("g", params=[N], assume="N >= 1")
    a, s = g.input("a", tm.int32, [N]), g.scalar("s", tm.int32)
    g.outputs(g.computation("o", {i: N}, a[tm.clip(s, 0, N - 1)]))
    assert g.check().ok
