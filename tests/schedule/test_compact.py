"""Values once for each distinct combination of keys: bits, verification, gradients, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E, R = tm.params("N E R")
n, p, r, k, d, n0, n1 = tm.iters("n p r k d n0 n1")
F = 3
DRAW = np.random.default_rng(4)
ETYPE = np.sort(DRAW.choice([0, 1, 3], 40)).astype(np.int32)
SRC, DST = (DRAW.integers(0, 5, 40).astype(np.int32) for _ in range(2))
BEGIN = np.searchsorted(ETYPE, np.arange(5)).astype(np.int32)
H = DRAW.standard_normal((5, F)).astype(np.float32)
W = DRAW.standard_normal((4, F, F)).astype(np.float32)
PAIRS = tm.distinct(SRC, ETYPE)


def in_runs() -> tuple[tm.Function, Any, Any, dict[str, Any]]:
    """Messages in the runs of their type."""
    f = tm.Function("in_runs", params=[N, E, R])
    types = f.segments("types", R, of=E)
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    h, w = f.input("h", tm.float32, [N, F]), f.input("W", tm.float32, [R, F, F])
    msg = f.reduction("msg", {r: R, p: types[r], d: F}, {k: F}, tm.sum, h[src[p], k] * w[r, k, d])
    out = f.scatter("out", {n: N, d: F}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=msg[types.of(p), p, d])
    f.outputs(out)
    return f, msg, out, {"types": BEGIN, "src": SRC, "dst": DST, "h": H, "W": W}


def by_edge() -> tuple[tm.Function, Any, Any, dict[str, Any]]:
    """Messages of edges whose types are an array."""
    f = tm.Function("by_edge", params=[N, E, R])
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    h, w = f.input("h", tm.float32, [N, F]), f.input("W", tm.float32, [R, F, F])
    msg = f.reduction("msg", {p: E, d: F}, {k: F}, tm.sum, h[src[p], k] * w[etype[p], k, d])
    out = f.scatter("out", {n: N, d: F}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=msg[p, d])
    f.outputs(out)
    return f, msg, out, {"etype": ETYPE, "src": SRC, "dst": DST, "h": H, "W": W}


FORMS = {"in runs": (in_runs, lambda f: (f["src"][p], r)), "by edge": (by_edge, lambda f: (f["src"][p], f["etype"][p]))}


@pytest.mark.parametrize("form", FORMS)
def test_compact_values_have_the_same_bits(form: str, tmp_path: Path) -> None:
    declare, keys = FORMS[form]
    f, msg, _, given = declare()
    right = f.compile()(**given)
    msg.compact(*keys(f), name="pairs")
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    given["pairs"] = PAIRS
    assert len(PAIRS) == len(np.unique(np.stack([SRC, ETYPE]), axis=1).T) < len(SRC)
    np.testing.assert_array_equal(f.compile()(**given), right)
    np.testing.assert_allclose(f.evaluate(**given), right, rtol=1e-6)
    np.testing.assert_array_equal(f.evaluate(**given, as_scheduled=True), right)
    assert "src[p]" in str(f.algorithm.computations["msg"].expr)
    f.save(tmp_path / "f.json")
    loaded = tm.load(tmp_path / "f.json")
    assert [str(each) for each in loaded.commands] == [str(each) for each in f.commands]
    np.testing.assert_array_equal(loaded.compile()(**given), right)


@pytest.mark.parametrize("form", FORMS)
def test_compact_goes_with_other_commands(form: str) -> None:
    declare, keys = FORMS[form]
    f, msg, out, given = declare()
    right = f.compile()(**given)
    into = f.inverse("into", f["dst"])
    out.gather(into)
    out.parallelize(n)
    msg.compact(*keys(f), name="pairs")
    msg.update.interchange(d, k)
    msg.update.vectorize(d, 2)
    assert f.check().ok, f.check()
    given |= {"pairs": PAIRS, "into": tm.inverse(DST, 5)}
    np.testing.assert_array_equal(f.compile(threads=2)(**given), right)
    cost = f.cost(N=5, E=40, R=4, pairs_count=len(PAIRS))
    assert next(each for each in cost.arrays if each.name == "msg").elements == len(PAIRS) * F
    assert next(each for each in cost.statements if each.name == "msg.update").instances == len(PAIRS) * F * F


def test_gradients_are_those_of_the_compact_values() -> None:
    f, msg, _, given = by_edge()
    weights = DRAW.standard_normal((5, F)).astype(np.float32)
    wanted = tm.vjp(f).step.compile()(**given, d_out=weights)
    msg.compact(*FORMS["by edge"][1](f), name="pairs")
    step = tm.vjp(f).step
    assert "pairs_of" in str(step.algorithm.computations["d_msg"].guards)
    found = step.compile()(**given, d_out=weights, pairs=PAIRS)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_gradients_in_two_functions_know_the_keys() -> None:
    f, msg, _, given = by_edge()
    msg.compact(*FORMS["by edge"][1](f), name="pairs")
    f.inverse("into", f["pairs_of"])
    g = tm.vjp(f)
    weights = DRAW.standard_normal((5, F)).astype(np.float32)
    given |= {"pairs": PAIRS, "into": tm.inverse(PAIRS.of, len(PAIRS))}
    wanted = g.step.compile()(**given, d_out=weights)[1:]
    assert "into_start" in str(g.backward.algorithm.computations["d_msg"].guards)
    assert g.backward.check().ok
    _, *saved = g.forward.compile()(**given) if g.saved else (None,)
    taken = {"W", "h", *g.backward.algorithm.inputs} & given.keys() | {"pairs", "into"}
    kept = {name: value for name, value in given.items() if name in taken} | dict(zip(g.saved, saved, strict=True))
    for one, other in zip(g.backward.compile()(**kept, d_out=weights), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_undoing_it_leaves_the_values_of_positions() -> None:
    f, msg, _, given = by_edge()
    right = f.compile()(**given)
    msg.compact(*FORMS["by edge"][1](f), name="pairs")
    f.undo()
    np.testing.assert_array_equal(f.compile()(**given, pairs=PAIRS), right)
    assert f.check().ok


def test_pairs_that_are_none_are_refused_at_the_call() -> None:
    f, msg, _, given = by_edge()
    msg.compact(*FORMS["by edge"][1](f), name="pairs")
    kernel = f.compile()
    with pytest.raises(tm.ArgumentError, match=r"pairs_of\[\d+\] = \d+ is a combination with another src"):
        kernel(**given, pairs=tm.distinct(DST, ETYPE))
    with pytest.raises(tm.ArgumentError, match="pairs is not that of src, etype"):
        kernel(**given, pairs=tm.distinct(SRC, ETYPE[::-1].copy()))
    with pytest.raises(tm.ArgumentError, match=r"pairs is what tm.distinct\(src, etype\) returns"):
        kernel(**given, pairs=SRC)
    with pytest.raises(tm.ArgumentError, match="key 1 has 3 positions, and key 0 has 2"):
        tm.distinct([1, 2], [1, 2, 3])
    with pytest.raises(tm.ArgumentError, match="keys are integers"):
        tm.distinct([1.0, 2.0])
    f, msg, _, given = in_runs()
    msg.compact(f["src"][p], r, name="pairs")
    with pytest.raises(tm.ArgumentError, match="is a combination with another types than position"):
        f.compile()(**given, pairs=tm.distinct(SRC, np.sort(DRAW.choice(4, 40)).astype(np.int32)))


def wrong_keys(f: Any) -> dict[str, tuple[tuple[Any, ...], str]]:
    src, dst, etype = (f[name] for name in ("src", "dst", "etype"))
    return {
        "too few": ((src[p],), r"msg depends on etype\[p\], which is none of the keys src"),
        "others": ((dst[p], etype[p]), r"msg depends on src\[p\], which is none of the keys dst, etype"),
        "a position": ((src[p], p), "p is no key of msg"),
        "another place": ((src[p + 1], etype[p]), r"src\[p \+ 1\] is no key of msg"),
        "none": ((), "give those that its values depend on"),
    }


@pytest.mark.parametrize("case", wrong_keys(by_edge()[0]))
def test_keys_that_do_not_tell_the_values_are_refused(case: str) -> None:
    f, msg, *_ = by_edge()
    before = f.program
    keys, words = wrong_keys(f)[case]
    with pytest.raises(tm.CommandError, match=words):
        msg.compact(*keys, name="pairs")
    assert f.program is before


def test_other_values_are_not_compact() -> None:
    f, msg, _, _ = in_runs()
    with pytest.raises(tm.CommandError, match="msg lies in runs of p: give their number r, too, as the last key"):
        msg.compact(f["src"][p], name="pairs")
    with pytest.raises(tm.CommandError, match="r is the run of a position: give it as the last key"):
        msg.compact(r, f["src"][p], name="pairs")
    f.input("pairs_of", tm.int32, [E])
    with pytest.raises(tm.CommandError, match="needs the name pairs_of, which is taken"):
        msg.compact(f["src"][p], r, name="pairs")
    f, msg, _, _ = in_runs()
    msg.update.parallelize(r)
    with pytest.raises(tm.CommandError, match=r"msg\.update has been scheduled: give compact first"):
        msg.compact(f["src"][p], r, name="pairs")
    f, msg, out, _ = in_runs()
    f.outputs(msg, out, replace=True)
    with pytest.raises(tm.CommandError, match="msg is an output"):
        msg.compact(f["src"][p], r, name="pairs")
    f, msg, _, _ = in_runs()
    msg.compact(f["src"][p], r, name="pairs")
    with pytest.raises(tm.CommandError, match="msg is compact already"):
        msg.compact(f["src"][p], r, name="pairs")
    f, _, _, _ = by_edge()
    some = f.computation("some", {p: (1, E)}, f["h"][f["src"][p], 0])
    f.outputs(f.computation("two", {p: (1, E)}, some[p] * 2), replace=True)
    with pytest.raises(tm.CommandError, match="some has values at some of the positions p only"):
        some.compact(f["src"][p], name="pairs")


@pytest.mark.parametrize("command", ["compact", "compact in runs", "gather"])
def test_arithmetic_of_an_index_stays_as_it_was_written(command: str) -> None:
    """Sizes beside an index of 32 bits are taken to fit, as before: no conversion is written that may wrap around."""
    f = tm.Function("arithmetic", params=[N, E, R], assume="N >= 1")
    src, w = f.input("src", tm.int32, [E], values=(0, N)), f.input("w", tm.float32, [N])
    types = f.segments("types", R, of=E)
    read = w[tm.minimum(src[p] + 1, N - 1)] + w[N - 1 - src[p]]
    if command == "gather":
        out = f.scatter("out", {n: N}, over={p: E}, at=[src[p]], op=tm.sum, expr=read)
    else:
        msg = f.computation("msg", {r: R, p: types[r]} if "runs" in command else {p: E}, read)
        out = f.computation("out", {p: E}, 2 * (msg[types.of(p), p] if "runs" in command else msg[p]))
    f.outputs(out)
    given = {"types": BEGIN, "src": SRC, "w": H[:, 0].copy()}
    right = f.evaluate(**given)
    assert f.check().ok
    if command == "gather":
        out.gather(f.inverse("into", src))
    else:
        msg.compact(src[p], *([r] if "runs" in command else []), name="pairs")
    assert f.check().bits == "bits preserved"
    given |= {"into": tm.inverse(SRC, 5)} if command == "gather" else {}
    given |= {"pairs": tm.distinct(SRC)} if command == "compact" else {}
    given |= {"pairs": PAIRS} if command == "compact in runs" else {}
    np.testing.assert_array_equal(f.compile()(**given), right)


def test_compact_values_are_proven_equal_by_their_keys() -> None:
    f, msg, *_ = by_edge()
    before = f.copy()
    msg.compact(*FORMS["by edge"][1](f), name="pairs")
    assert tm.equivalent(before, f), tm.equivalent(before, f)
    other, out = tm.Function("other", params=[N, E, R]), tm.float32
    src, dst = (other.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    etype = other.input("etype", tm.int32, [E], values=(0, R))
    h, w = other.input("h", out, [N, F]), other.input("W", out, [R, F, F])
    wrong = other.reduction("msg", {p: E, d: F}, {k: F}, tm.sum, h[dst[p], k] * w[etype[p], k, d])
    other.outputs(other.scatter("out", {n: N, d: F}, over={p: E}, at=[src[p], d], op=tm.sum, expr=wrong[p, d]))
    assert not tm.equivalent(other, f)
