"""Sums before their products: values, counts, grades of bits, gradients, equivalence, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E, R = tm.params("N E R")
n, p, k, d, h = tm.iters("n p k d h")
F, G, H = 3, 4, 2
DRAW = np.random.default_rng(8)
GIVEN: dict[str, Any] = {
    "src": DRAW.integers(0, 5, 40).astype(np.int32),
    "dst": DRAW.integers(0, 4, 40).astype(np.int32),  # a node without edges
    "etype": DRAW.choice([0, 2], 40).astype(np.int32),  # types without edges
    "x": DRAW.standard_normal((5, F)),
    "W": DRAW.standard_normal((4, H, F, G)),
    "norm": DRAW.standard_normal((40, H)),
}
PAIRS = tm.distinct(GIVEN["dst"], GIVEN["etype"])


def convolution(
    between: str = "", *, kept: bool = False, row: Any = tm.float64
) -> tuple[tm.Function, Any, Any, tuple[Any, Any]]:
    """A relational graph convolution with two heads, of which each has its own factor of an edge."""
    f = tm.Function("convolution", params=[N, E, R])
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    x, w = f.input("x", row, [N, F]), f.input("W", tm.float64, [R, H, F, G])
    norm = f.input("norm", tm.float64, [E, H])
    msg = f.reduction("msg", {p: E, h: H, d: G}, {k: F}, tm.sum, x[src[p], k] * w[etype[p], h, k, d])
    value = {"exp": tm.exp(msg[p, h, d]), "alone": msg[p, h, d]}.get(between, norm[p, h] * msg[p, h, d])
    out = f.scatter("out", {n: N, h: H, d: G}, over={p: E}, at=[dst[p], h, d], op=tm.sum, expr=value)
    f.outputs(*([msg] if kept else []), out)
    return f, msg, out, (dst[p], etype[p])


def right() -> Any:
    rows = np.einsum("ek,ehkd->ehd", GIVEN["x"][GIVEN["src"]], GIVEN["W"][GIVEN["etype"]])
    found = np.zeros((5, H, G))
    np.add.at(found, GIVEN["dst"], GIVEN["norm"][:, :, None] * rows)
    return found


def test_rows_are_summed_first(tmp_path: Path) -> None:
    f, msg, out, keys = convolution()
    before = f.copy()
    out.sum_first(msg, *keys, name="pairs")
    same = tm.equivalent(before, f)
    assert same and same.regrouped, same
    report = f.check()
    assert report.ok and "bits given up by out.sum_first(msg, dst[p], etype[p], name='pairs')" in str(report), report
    assert "msg" not in {statement.source for statement in f.program.statements.values()}
    given = {**GIVEN, "pairs": PAIRS}
    for found in (f.compile()(**given), f.evaluate(**given), f.evaluate(**given, as_scheduled=True)):
        np.testing.assert_allclose(found, right(), rtol=1e-12, atol=1e-12)
    work = {each.name: each.instances for each in f.cost(N=5, E=40, R=4, pairs_count=len(PAIRS)).statements}
    assert work["msg_sums.update"] == len(PAIRS) * H * F * G < 40 * H * F * G
    f.save(tmp_path / "f.json")
    np.testing.assert_array_equal(tm.load(tmp_path / "f.json").compile()(**given), f.compile()(**given))


def test_sums_are_gathered_and_run_on_threads() -> None:
    f, msg, out, keys = convolution()
    out.sum_first(msg, *keys, name="pairs")
    f["msg_rows"].gather(f.inverse("into_pairs", f["pairs_of"]))
    out.gather(f.inverse("into_dst", f["pairs_dst"]))
    f["msg_rows"].parallelize(tm.Iter("u"))
    f["msg_sums"].parallelize(p)
    out.parallelize(n)
    assert f.check().ok, f.check()
    given = {**GIVEN, "pairs": PAIRS, "into_pairs": tm.inverse(PAIRS.of, len(PAIRS))}
    given["into_dst"] = tm.inverse(PAIRS.columns[0], 5)
    np.testing.assert_allclose(f.compile(threads=2)(**given), right(), rtol=1e-12, atol=1e-12)
    f.undo()
    assert f.check().ok


def test_gradients_are_those_of_the_new_form() -> None:
    f, msg, out, keys = convolution()
    weights = DRAW.standard_normal((5, H, G))
    wanted = tm.vjp(f).step.compile()(**GIVEN, d_out=weights)
    out.sum_first(msg, *keys, name="pairs")
    g = tm.vjp(f)
    assert {"d_msg_rows", "d_msg_sums"} <= g.step.algorithm.computations.keys()
    for one, other in zip(g.step.compile()(**GIVEN, pairs=PAIRS, d_out=weights), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_what_is_read_elsewhere_is_still_computed() -> None:
    f, msg, out, keys = convolution(kept=True)
    out.sum_first(msg, *keys, name="pairs")
    rows, found = f.compile()(**GIVEN, pairs=PAIRS)
    np.testing.assert_allclose(found, right(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows[7], GIVEN["x"][GIVEN["src"][7]] @ GIVEN["W"][GIVEN["etype"][7]], rtol=1e-12)


def test_sums_by_other_keys_are_not_equal() -> None:
    """The equivalence is of this function alone: with the source in place of the target it is different."""
    f, msg, out, keys = convolution()
    out.sum_first(msg, *keys, name="pairs")
    g = tm.Function("other", params=[N, E, R])
    src, dst = (g.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    etype = g.input("etype", tm.int32, [E], values=(0, R))
    x, w = g.input("x", tm.float64, [N, F]), g.input("W", tm.float64, [R, H, F, G])
    norm = g.input("norm", tm.float64, [E, H])
    m = g.reduction("m", {p: E, h: H, d: G}, {k: F}, tm.sum, x[dst[p], k] * w[etype[p], h, k, d])
    g.outputs(
        g.scatter("out", {n: N, h: H, d: G}, over={p: E}, at=[src[p], h, d], op=tm.sum, expr=norm[p, h] * m[p, h, d])
    )
    assert not tm.equivalent(f, g)


def test_sums_of_other_numbers_are_not_equal() -> None:
    """Rows that are summed by another number of the position, of as many: nothing is known of its keys."""
    f, msg, out, keys = convolution()
    before = f.copy()
    out.sum_first(msg, *keys, name="pairs")
    count = tm.params("pairs_count")[0]
    g = tm.Function("by_others", params=[N, E, R, count])
    src, _ = (g.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    g.input("etype", tm.int32, [E], values=(0, R))
    x, w = g.input("x", tm.float64, [N, F]), g.input("W", tm.float64, [R, H, F, G])
    norm, u = g.input("norm", tm.float64, [E, H]), tm.Iter("u")
    others = g.input("others", tm.int32, [E], values=(0, count))
    ends, kinds = (
        g.input(f"of_{name}", tm.int32, [count], values=(0, most)) for name, most in (("dst", N), ("type", R))
    )
    rows = g.scatter(
        "rows", {u: count, h: H, k: F}, over={p: E}, at=[others[p], h, k], op=tm.sum, expr=norm[p, h] * x[src[p], k]
    )
    sums = g.reduction("sums", {u: count, h: H, d: G}, {k: F}, tm.sum, rows[u, h, k] * w[kinds[u], h, k, d])
    g.outputs(g.scatter("out", {n: N, h: H, d: G}, over={u: count}, at=[ends[u], h, d], op=tm.sum, expr=sums[u, h, d]))
    b = tm.Function("beside", params=[N, E, R, count])
    for each in g.algorithm.inputs.values():
        b.input(each.name, each.dtype, each.shape, values=each.values)
    m = b.reduction("msg", {p: E, h: H, d: G}, {k: F}, tm.sum, b["x"][b["src"][p], k] * b["W"][b["etype"][p], h, k, d])
    expr = b["norm"][p, h] * m[p, h, d]
    b.outputs(b.scatter("out", {n: N, h: H, d: G}, over={p: E}, at=[b["dst"][p], h, d], op=tm.sum, expr=expr))
    assert tm.equivalent(before, f) and not tm.equivalent(b, g)


def test_wrong_pairs_are_refused_at_a_call() -> None:
    f, msg, out, keys = convolution()
    out.sum_first(msg, *keys, name="pairs")
    with pytest.raises(tm.ArgumentError, match="pairs"):
        f.compile()(**GIVEN, pairs=tm.distinct(GIVEN["src"], GIVEN["etype"]))


def test_what_is_no_sum_of_products_is_refused() -> None:
    f, msg, out, keys = convolution("exp")
    before = f.program
    with pytest.raises(tm.CommandError, match=r"sum_first is for a sum of msg\[..\], or of that times factors"):
        out.sum_first(msg, *keys, name="pairs")
    assert f.program is before


def test_a_key_that_is_missing_is_named() -> None:
    f, msg, out, (dst, etype) = convolution()
    with pytest.raises(tm.CommandError, match=r"takes a term where .*dst\[p\].*none of the keys etype: add it"):
        out.sum_first(msg, etype, name="types")
    with pytest.raises(
        tm.CommandError, match=r"msg multiplies no factor of its own keys, such as W\[type\[p\], k, j\]"
    ):
        out.sum_first(msg, dst, name="nodes")
    with pytest.raises(tm.CommandError, match="out is summed by keys: give those of its terms"):
        out.sum_first(msg, name="pairs")
    with pytest.raises(tm.CommandError, match="of one position, an iterator of its terms"):
        out.sum_first(msg, f["dst"][n], etype, name="pairs")
    msg.update.vectorize(d, 2)
    with pytest.raises(tm.CommandError, match=r"msg\.update has been scheduled: give sum_first first"):
        out.sum_first(msg, dst, etype, name="pairs")


ROWS = {
    "int8": (tm.int8, DRAW.integers(50, 120, (5, F)).astype(np.int8)),
    "float32": (tm.float32, GIVEN["x"].astype(np.float32)),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_another_type_are_summed_in_that_of_the_product(name: str) -> None:
    """Integers would wrap in a sum of their own, and float32 round, where their products with float64 do not."""
    dtype, x = ROWS[name]
    f, msg, out, keys = convolution("alone", row=dtype)
    before = f.copy()
    out.sum_first(msg, *keys, name="pairs")
    assert f["msg_rows"].dtype == tm.float64
    assert tm.equivalent(before, f), tm.equivalent(before, f)
    given = {**GIVEN, "x": x, "pairs": PAIRS}
    wanted = np.zeros((5, H, G))
    rows = np.einsum("ek,ehkd->ehd", x.astype(np.float64)[GIVEN["src"]], GIVEN["W"][GIVEN["etype"]])
    np.add.at(wanted, GIVEN["dst"], rows)
    np.testing.assert_allclose(f.compile()(**given), wanted, rtol=1e-12, atol=1e-12)


def test_combinations_have_a_name_of_their_own() -> None:
    u, q, pair, combination = tm.iters("u q pair combination")
    f = tm.Function("named", params=[N, E, R])
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    x, w = f.input("x", tm.float64, [N, F]), f.input("W", tm.float64, [R, H, F, G])
    msg = f.reduction(
        "msg", {pair: E, q: H, combination: G}, {k: F}, tm.sum, x[src[pair], k] * w[etype[pair], q, k, combination]
    )
    at = [dst[pair], q, combination]
    out = f.scatter(
        "out", {u: N, q: H, combination: G}, over={pair: E}, at=at, op=tm.sum, expr=msg[pair, q, combination]
    )
    f.outputs(out)
    before = f.copy()
    out.sum_first(msg, dst[pair], etype[pair], name="pairs")
    assert f.program.algorithm.computations["msg_rows"].iterators[0] == "u_2"
    assert tm.equivalent(before, f), tm.equivalent(before, f)


def test_a_sum_in_order_keeps_it() -> None:
    f = tm.Function("ordered", params=[N, E, R])
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    etype = f.input("etype", tm.int32, [E], values=(0, R))
    x, w = f.input("x", tm.float64, [N, F]), f.input("W", tm.float64, [R, F, G])
    msg = f.reduction("msg", {p: E, d: G}, {k: F}, tm.sum, x[src[p], k] * w[etype[p], k, d])
    out = f.scatter("out", {n: N, d: G}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=msg[p, d], determinism="ordered")
    f.outputs(out)
    with pytest.raises(tm.CommandError, match="out is declared determinism='ordered', and sum_first rounds"):
        out.sum_first(msg, dst[p], etype[p], name="pairs")
