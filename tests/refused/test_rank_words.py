"""Mistakes of a first day with ranks: each is refused in words that name the user's objects and say what to do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.pipelines import B, P, blur, c, halo, q, r

NONBLOCK = [tm.ASYNC, tm.NONBLOCK]
i, k, t, i1 = tm.iters("i k t i1")
picture = np.zeros((P * B, 5), dtype=np.float32)


def exchanged(**changed: object) -> SimpleNamespace:
    s = blur()
    given = {
        "send": {q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: s.C}, "to": q + 1,
        "recv": {q: (1, P), r: (q * B - 1, q * B), c: s.C}, "source": q - 1, "name": "down",
    }  # fmt: skip
    s.down = s.f.create_exchange(s.bx[r, c], **{**given, **changed})
    return s


def repairs(f: tm.Function) -> list[str]:
    return [violation.repair for violation in f.check().violations]


def test_what_runs_on_no_rank_is_the_only_reason_named() -> None:
    s = blur()
    s.f.grid(P - 1)
    s.f.derive_transfers()
    report = s.f.check()
    assert [v.message.partition(" runs on ")[0].partition("[")[0] for v in report.violations] == ["bx", "by"]
    assert "runs on rank 3, which does not exist: there are 3 ranks" in report.violations[0].message
    assert "declare a larger process grid" in report.violations[0].repair


def to_all(own: bool) -> tm.Function:
    """Every rank gets the parts of a vector of all ranks; `own`: also of itself."""
    f = tm.Function("product", params=[])
    x = f.input("x", tm.float64, [P * B])
    y = f.computation("y", {q: P, i: P * B}, x[i] + 1)
    f.outputs(y)
    x.distribute_array([i], rank=i // B)
    y.distribute_array([q, i], rank=q)
    y.tag_distribute(q)
    others = [{q: P, k: P}] if own else [{q: P, k: (0, q)}, {q: P, k: (q + 1, P)}]
    e = f.create_exchange(
        x[i], send=[{**d, i: (q * B, q * B + B)} for d in others], to=k,
        recv=[{**d, i: (k * B, k * B + B)} for d in others], source=k,
        send_props=NONBLOCK, recv_props=NONBLOCK, name="e",
    )  # fmt: skip
    e.collapse_many(i)
    f.order(e.send, e.recv, *e.wait(), y, at=tm.root)
    return f


def test_a_rank_that_sends_to_itself_is_told_so() -> None:
    assert repairs(to_all(own=True)) == ["leave out what a rank sends to itself: it has these values"]
    assert to_all(own=False).check().ok


def chain() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Each rank adds to what the rank before has found."""
    f = tm.Function("chain", params=[])
    a = f.input("a", tm.int64, [P])
    off = f.computation("off", {q: P}, lambda o: tm.select(q == 0, a[q], o[q - 1] + a[q]))
    f.outputs(off)
    for array in (a, off):
        array.distribute_array([q], rank=q)
    off.tag_distribute(q)
    return f, a, off


def test_a_repair_by_hand_is_named_where_deriving_has_brought_nothing() -> None:
    f, _, _ = chain()
    f.derive_transfers()
    if not (found := repairs(f)):
        pytest.skip("it is derived")
    assert found == [
        "chain.create_exchange(off[q_], send={q: 3, q_: (q, q + 1)}, to=q + 1, recv={q: (1, 4), q_: (q - 1, q)}, "
        "source=q - 1)"
    ]


def test_the_repair_of_a_chain_is_right() -> None:
    f, _, off = chain()
    x = f.create_exchange(
        off[k], send={q: 3, k: (q, q + 1)}, to=q + 1, recv={q: (1, 4), k: (q - 1, q)}, source=q - 1, name="x"
    )
    f.order(x.recv, off, x.send, at=tm.root)
    assert f.check().ok
    numbers = np.arange(1, P + 1)
    np.testing.assert_array_equal(f.simulate(a=numbers), np.cumsum(numbers))


@pytest.mark.parametrize(
    "changed", [{"to": q}, {"source": q + 1}, {"recv": {q: (1, P), r: (q * B - 2, q * B - 1), c: 1}}]
)
def test_halves_that_do_not_meet_are_told_what_must_agree(changed: dict[str, object]) -> None:
    s = exchanged(**changed)
    assert any("name equal values, and each other's ranks (to=, source=)" in repair for repair in repairs(s.f))


def test_errors_in_a_domain_name_the_half() -> None:
    with pytest.raises(tm.DeclarationError, match=r"bx\[r, c\] in down\.send uses the iterator r"):
        exchanged(send={q: P - 1, c: 3})
    with pytest.raises(tm.DeclarationError, match=r"the bound 1\.5 of q in the domain of down\.recv"):
        exchanged(recv={q: 1.5, r: 3, c: 3})


def test_ranks_are_not_collapsed() -> None:
    s = exchanged()
    with pytest.raises(tm.CommandError, match="loop q runs on ranks, and a message is from one rank to one"):
        s.down.collapse_many(q, r, c)


def test_a_half_that_is_gone_is_called_as_the_user_does() -> None:
    s = exchanged()
    s.f.undo()
    with pytest.raises(tm.CommandError, match=r"down\.send has been removed"):
        s.down.send.collapse_many(c)


def wave(slots: bool) -> tm.Function:
    """Persistent requests of messages that come from three places in turn."""
    (T,) = tm.params("T")
    n = P * B
    f = tm.Function("wave", params=[T], assume="T >= 2")
    a = f.input("a", tm.float64, [n])
    still = (t <= 1) | (i == 0) | (i == n - 1)
    u = f.computation(
        "u", {t: T + 1, i: n}, lambda u: tm.select(still, a[i], u[t - 1, i - 1] + u[t - 1, i + 1] - u[t - 2, i])
    )
    f.outputs(u[T, i])
    u.store_in(tm.Buffer("three", [3, n], tm.float64), [t % 3, i])
    for array in (a, f["u_out"]):
        array.distribute_array([i], rank=i // B)
    for stage in (u, f["u_out"]):
        stage.split(i, B, q, i1)
        stage.tag_distribute(q)
    props = {"send_props": [tm.NONBLOCK, tm.PERSISTENT], "recv_props": [tm.NONBLOCK, tm.PERSISTENT]}
    down = f.create_exchange(
        u[t, i], send={t: T, q: (0, P - 1), i: (q * B + B - 1, q * B + B)}, to=q + 1,
        recv={t: T, q: (1, P), i: (q * B - 1, q * B)}, source=q - 1, name="down", **props,
    )  # fmt: skip
    up = f.create_exchange(
        u[t, i], send={t: T, q: (1, P), i: (q * B, q * B + 1)}, to=q - 1,
        recv={t: T, q: (0, P - 1), i: (q * B + B, q * B + B + 1)}, source=q + 1, name="up", **props,
    )  # fmt: skip
    halves = [down.send, up.send, down.recv, up.recv]
    for half in halves if slots else ():
        half.set_wait_access(t % 3)
    f.order(u, *halves, *down.wait({t: T}), *up.wait({t: T}), at=t)
    return f


def test_persistent_messages_from_several_places_are_told_what_to_do() -> None:
    with pytest.raises(tm.LegalityError, match=r"(?s)down\.send cannot be persistent: .*set_wait_access\(t % 3\)"):
        wave(slots=False).show("lowered")
    f = wave(slots=True)
    a = np.arange(P * B, dtype=np.float64)
    np.testing.assert_array_equal(f.simulate(a=a, T=5), f.evaluate(a=a, T=5))


def test_a_report_says_what_every_rank_computes() -> None:
    s = halo()
    assert not any("every rank computes" in fact for fact in s.f.check().proven)
    s = blur(ranks=False)
    s.by.split(r, B, q, i1)
    s.by.tag_distribute(q)
    for array in (s.image, s.by):
        array.distribute_array([r, c], rank=None if array is s.image else r // B)
    assert "every rank computes bx" in s.f.check().proven


CALLS = [
    (lambda f: f.part("by2", picture, 0), "'by2' is no array of blur: only image, by are held in parts"),
    (lambda f: f.part("bx", picture, 0), "'bx' is a temporary, neither an input nor an output of blur"),
    (lambda f: f.part("image", picture, -1), "rank=-1: give an integer of at least 0"),
    (lambda f: f.part("image", picture, 1.0), "rank=1.0: give an integer"),
    (lambda f: f.part("image", picture[0], 1), r"image has 1 dimensions, shape \(5,\); it is declared as "),
    (lambda f: f.simulate(4.0, image=picture), "number=4.0: give an integer"),
    (
        lambda f: f.simulate(image=picture[:B]),
        rf"image has shape \({B}, 5\), but its extent 0 is declared as {P * B}, not {B}",
    ),
    (lambda f: f.cost("communication", C="x"), "the parameter C is an integer, not 'x'"),
    (lambda f: f.cost("communication", C=3).of_rank(1.0), "there is no rank 1.0: give its number, or its coordinates"),
]


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[words[:30] for _, words in CALLS])
def test_what_is_passed_wrongly_is_named(call: object, words: str) -> None:
    s = blur()
    s.f.derive_transfers()
    with pytest.raises(tm.ArgumentError, match=words):
        call(s.f)  # type: ignore[operator]


def in_time() -> SimpleNamespace:
    """A recurrence on ranks, with nonblocking messages in both directions and nothing ordered."""
    s = halo(recurrent=True)
    s.right = s.f.create_exchange(
        s.h[t, i], send={t: s.T, q: (0, P - 1), i: (q * B + B - 1, q * B + B)}, to=q + 1,
        recv={t: s.T, q: (1, P), i: (q * B - 1, q * B)}, source=q - 1, name="right",
        send_props=NONBLOCK, recv_props=NONBLOCK,
    )  # fmt: skip
    s.left = s.f.create_exchange(
        s.h[t, i], send={t: s.T, q: (1, P), i: (q * B, q * B + 1)}, to=q - 1,
        recv={t: s.T, q: (0, P - 1), i: (q * B + B, q * B + B + 1)}, source=q + 1, name="left",
        send_props=NONBLOCK, recv_props=NONBLOCK,
    )  # fmt: skip
    s.halves = [s.right.send, s.left.send, s.right.recv, s.left.recv]
    return s


def test_a_wait_in_a_time_loop_without_a_domain_is_told_so() -> None:
    s = in_time()
    waits = [*s.right.wait(), *s.left.wait()]
    with pytest.raises(tm.CommandError, match=r"a wait with a domain has loops: wait\(\{t: \.\.\.\}\)"):
        s.f.order(s.h, *s.halves, *waits, at=t)


def test_messages_of_a_recurrence_that_are_ordered_at_root_are_sent_into_its_loop() -> None:
    s = in_time()
    s.f.order(s.h, *s.halves, *s.right.wait({t: s.T}), *s.left.wait({t: s.T}), at=tm.root)
    assert repairs(s.f)[0] == f"{s.f.name}.order(h, right.recv, at=t)"


def test_a_tuple_of_waits_in_an_order_is_told_to_be_unpacked() -> None:
    s = in_time()
    with pytest.raises(tm.CommandError, match=r"is several handles: unpack it"):
        s.f.order(s.h, *s.halves, s.right.wait({t: s.T}), at=t)


def test_an_output_that_every_rank_must_return_is_told_to_be_distributed() -> None:
    s = blur(ranks=False)
    for computation in (s.bx, s.by):
        computation.split(r, B, q, i1)
        computation.tag_distribute(q)
    s.image.distribute_array([r, c], rank=r // B)
    advice = "by.distribute_array([r, c], rank=...) if each rank is to return a part of it, or blur.derive_transfers()"
    assert advice in repairs(s.f)


def test_bounds_of_other_blocks_are_named() -> None:
    n, low, high = tm.params("n low high")
    f = tm.Function("f", params=[n, low, high])
    a = f.input("a", tm.float32, [n])
    f.outputs(f.computation("b", {i: n}, a[i]))
    f.blocks(n, low, high)
    with pytest.raises(tm.CommandError, match=r"bounds=\(high, low\): blocks have the bounds \(low, high\)"):
        a.distribute_array([i], rank=i, bounds=(high, low))


def test_blocks_of_a_size_that_is_a_parameter_are_told_of_blocks() -> None:
    (n,) = tm.params("n")
    f = tm.Function("f", params=[n], assume="n >= 1")
    a = f.input("a", tm.float32, [10])
    with pytest.raises(tm.CommandError, match=r"for blocks whose size is known at run time only .* Function\.blocks"):
        a.distribute_array([i], rank=i // n)


def test_derived_messages_between_blocks_are_written_with_this_rank_s_number() -> None:
    n, low, high = tm.params("n low high")
    f = tm.Function("f", params=[n, low, high], assume="n >= 1")
    a = f.input("a", tm.float32, [n])
    b = f.computation("b", {i: n - 1}, a[i + 1] - a[i], shape=[n])
    f.outputs(b)
    f.blocks(n, low, high)
    for array in (a, b):
        array.distribute_array([i], rank=i, bounds=(low, high))
    b.tag_distribute(i, bounds=(low, high))
    other = f.copy()
    f.derive_transfers()
    lines = "\n".join(f.derived())
    assert "to=tm.rank - 1" in lines
    assert "source=tm.rank + 1" in lines
    exec(lines, {"f": other, "tm": tm})
    assert other.check().ok
    with pytest.raises(tm.ArgumentError, match="it is not simulated, run it under mpirun"):
        f.simulate(a=np.zeros(4, dtype=np.float32))
