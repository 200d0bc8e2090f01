"""Words of older versions: each still works, warns at the place in the user's script, and says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, i, i0, i1, j, j0, j1, r, r0, r1, x, y
from tiramisu_py.function.handles.old_words import FORMER_LOOKS, OLD_WORDS
from tiramisu_py.function.saving.plain import Reader, plain

Schedule = Callable[[SimpleNamespace], object]


def _on_gpu(s: SimpleNamespace) -> None:
    s.o.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)


#: What is written in older versions, and now; both after a schedule.
PAIRS: list[tuple[str, Callable[[], SimpleNamespace], Schedule, Schedule, Schedule]] = [
    ("cache", pl.blur, lambda s: s.by.split(r, 4, r0, r1), lambda s: s.by.cache(s.bx, r0, [y, x]),
        lambda s: s.by.copy(s.bx, [y, x], at=r0)),
    ("cache", pl.blur, lambda s: None, lambda s: s.by.cache(s.bx, r, [y, x], layout=[x, y], memory="register"),
        lambda s: s.by.copy(s.bx, [y, x], at=r, into="register", layout=[x, y], name="bx_cache")),
    ("pack", pl.blur, lambda s: None, lambda s: s.by.pack(s.bx, [y, x], [x, y]),
        lambda s: s.by.copy(s.bx, [y, x], layout=[x, y])),
    ("pack", pl.blur, lambda s: None, lambda s: s.by.pack(s.bx, [y, x], [x, y], level=r, name="near"),
        lambda s: s.by.copy(s.bx, [y, x], at=r, layout=[x, y], name="near")),
    ("cache_shared", pl.scale, _on_gpu, lambda s: s.o.cache_shared(s.a, j0, [y, x], pad=1, threads=[x]),
        lambda s: s.o.copy(s.a, [y, x], at=j0, into=tm.SHARED, pad=1, threads=[x])),
    ("cache_local", pl.scale, _on_gpu, lambda s: s.o.cache_local(s.a, j1, [y, x]),
        lambda s: s.o.copy(s.a, [y, x], at=j1, into=tm.REGISTER)),
    ("gpu_tile", pl.scale, lambda s: None, lambda s: s.o.gpu_tile(i, j, 4, 4, i0, j0, i1, j1, stream=2),
        lambda s: s.o.tile(i, j, 4, 4, i0, j0, i1, j1).tag_gpu([i0, j0], [i1, j1], stream=2)),
    ("level", pl.blur, lambda s: None, lambda s: s.bx.compute_at(s.by, level=r), lambda s: s.bx.compute_at(s.by, at=r)),
    ("level", pl.blur, lambda s: None, lambda s: s.by.after(s.bx, level=r), lambda s: s.by.after(s.bx, at=r)),
    ("level", pl.pair, lambda s: None, lambda s: s.q.fuse(s.p, level=i), lambda s: s.q.fuse(s.p, i)),
    ("then", pl.pair, lambda s: None, lambda s: s.p.then(s.q, i), lambda s: s.q.after(s.p, i)),
    ("distribute", pl.blur, lambda s: None, lambda s: s.by.distribute([r, c], rank=r // 5),
        lambda s: s.by.distribute_array([r, c], rank=r // 5)),
    ("between", pl.chain, lambda s: None, lambda s: s.q.between(s.p, i, s.z, tm.root),
        lambda s: s.q.after(s.p, i).before(s.z, tm.root)),
    ("level", pl.blur, lambda s: s.bx.compute_at(s.by, r), lambda s: s.bx.slide(level=r), lambda s: s.bx.slide(loop=r)),
    ("level", pl.blur, lambda s: None, lambda s: s.by.prefetch(s.bx, level=c), lambda s: s.by.prefetch(s.bx, loop=c)),
]  # fmt: skip


@pytest.mark.parametrize(("word", "make", "before", "old", "new"), PAIRS)
def test_an_old_word_warns_and_is_the_same_command(
    word: str, make: Callable[[], SimpleNamespace], before: Schedule, old: Schedule, new: Schedule
) -> None:
    s, t = make(), make()
    before(s), before(t)
    advice = OLD_WORDS.get(word)
    said = (
        f"{word} is an old word: write {advice}" if advice else r"\w+= of .* is an old word: write (at=|loop=|tile\()"
    )
    with pytest.warns(DeprecationWarning, match=re.escape(said) if advice else said) as warned:
        old(s)
    assert Path(warned[0].filename) == Path(__file__)
    new(t)
    assert word == "gpu_tile" or s.f.commands == t.f.commands
    assert s.f.show("pseudocode") == t.f.show("pseudocode")


#: Old words of views, and the views; both of a function that moves `bx` to the GPU and back.
LOOKS: list[tuple[str, Callable[[tm.Function], object], Callable[[tm.Function], object]]] = [
    ("loop_nests", lambda f: f.loop_nests(), lambda f: f.show("loops")),
    ("pseudocode", lambda f: f.pseudocode(), lambda f: f.show("pseudocode")),
    ("lowered", lambda f: f.lowered(32, until="unroll_loops"), lambda f: f.show("lowered", 32, until="unroll_loops")),
    ("picture", lambda f: f.picture("a.html", R=5, C=4).html, lambda f: f.show("picture", "b.html", R=5, C=4).html),
    ("picture", lambda f: f.picture(beside=f, R=5, C=4).html, lambda f: f.show(beside=f, R=5, C=4).html),
    ("explain", lambda f: f.explain("bx"), lambda f: f.show("history", "bx")),
    ("remarks", lambda f: f.remarks, lambda f: f.show("remarks")),
    ("symbolic_cost", lambda f: f.symbolic_cost(C=4), lambda f: f.cost("symbolic", C=4)),
    ("communication", lambda f: f.communication(R=9, C=8), lambda f: f.cost("communication", R=9, C=8)),
    ("memory", lambda f: f.memory(threads=2, R=9, C=8), lambda f: f.cost("memory", threads=2, R=9, C=8)),
    ("facts", lambda f: f.facts(), lambda f: f.cost("kernels")),
]


@pytest.mark.parametrize(("word", "old", "new"), LOOKS)
def test_an_old_word_of_a_view_warns_and_shows_the_same(
    word: str,
    old: Callable[[tm.Function], object],
    new: Callable[[tm.Function], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    f = pl.blur().f
    said = re.escape(f"{word} of a function is an old word: write {FORMER_LOOKS[word]}")
    with pytest.warns(DeprecationWarning, match=said) as warned:
        shown = old(f)
    assert [Path(each.filename) for each in warned] == [Path(__file__)]
    assert str(shown) == str(new(f))


def test_each_old_word_of_a_view_is_tried() -> None:
    assert {word for word, _, _ in LOOKS} == set(FORMER_LOOKS)


def test_messages_by_their_old_word_are_those_of_now() -> None:
    f, _ = on_four_ranks()
    with pytest.warns(DeprecationWarning, match="picture of a function is an old word"):
        assert f.picture() == f.show("messages")


def test_an_argument_by_its_old_name_and_its_new_one_is_refused() -> None:
    s = pl.blur()
    with pytest.raises(tm.CallError, match="has the argument level=, and compute_at takes consumer, at"):
        s.bx.compute_at(s.by, at=r, level=r)


@pytest.mark.parametrize(
    ("command", "now"),
    [
        ({"is": "cache_at", "level": r0, "iterators": [y, x]}, "by.copy(bx, [y, x], at=r0)"),
        ({"is": "cache_at", "level": r0, "iterators": [y, x], "layout": [x, y]},
            "by.copy(bx, [y, x], at=r0, layout=[x, y], name='bx_cache')"),
        ({"is": "pack", "iterators": [y, x], "layout": [x, y]}, "by.copy(bx, [y, x], layout=[x, y])"),
        ({"is": "cache_shared", "level": r0, "iterators": [y, x], "pad": 1},
            "by.copy(bx, [y, x], at=r0, into=tm.SHARED, pad=1)"),
        ({"is": "cache_local", "level": r0, "iterators": [y, x]}, "by.copy(bx, [y, x], at=r0, into=tm.REGISTER)"),
    ],
)  # fmt: skip
def test_a_command_in_an_older_file_is_that_of_now(command: dict[str, object], now: str) -> None:
    s = pl.blur()
    given = {
        "is": command["is"], "of": plain(s.by._named), "copied": plain(s.bx._named),
        **{name: plain(value) for name, value in command.items() if name != "is"},
    }  # fmt: skip
    assert str(Reader(s.f.owner, {}).value(given)) == now


def test_a_named_argument_in_an_older_file_is_that_of_now() -> None:
    s = pl.blur()
    s.bx.compute_at(s.by, r)
    (command,) = s.f.commands
    older = plain(command)
    older["level"] = older.pop("at")
    assert Reader(s.f.owner, {}).value(older) == command


@pytest.mark.parametrize(("old", "now"), [("GPU", "GPU_MEMORY"), ("Gpu", "GpuThreads")])
def test_a_name_of_the_package_warns_and_is_that_of_now(old: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"tiramisu_py.{old} is an old word: write tiramisu_py.{now}") as warned:
        found = getattr(tm, old)
    assert Path(warned[0].filename) == Path(__file__)
    assert found is getattr(tm, now)
    assert old not in dir(tm)


def on_four_ranks() -> tuple[tm.Function, tm.Computation]:
    f = tm.Function("line")
    a = f.input("a", tm.float32, [4])
    b = f.computation("b", {i: 4}, 2 * a[i])
    f.outputs(b)
    b.tag_distribute(i)
    return f, b


def test_an_exchange_by_its_old_word_is_that_of_now() -> None:
    (f, b), (g, d) = on_four_ranks(), on_four_ranks()
    halves = {"send": {i: (1, 2)}, "to": i - 1, "recv": {i: (1, 2)}, "source": i - 1}
    with pytest.warns(DeprecationWarning, match="create_xfer with send= is an old word: write create_ex") as warned:
        f.create_xfer(b[i], **halves, name="down")
    assert Path(warned[0].filename) == Path(__file__)
    g.create_exchange(d[i], **halves, name="down")
    assert f.commands == g.commands
    assert f.commands[-1].text.startswith("line.create_exchange(b[i], send=")


def test_a_transfer_with_halves_and_a_direction_is_refused() -> None:
    s = pl.blur()
    with pytest.raises(tm.CommandError, match="take no direction: create_exchange"):
        s.f.create_xfer({r: 1, c: 1}, s.bx[r, c], tm.CPU2GPU, send={r: 1})
    with pytest.raises(tm.CallError, match="create_xfer has no argument quickly=: it takes domain, access, direction"):
        s.f.create_xfer({r: 1, c: 1}, s.bx[r, c], tm.CPU2GPU, quickly=True)


def test_gpu_tile_has_no_other_arguments() -> None:
    s = pl.scale()
    with pytest.raises(tm.CallError, match="gpu_tile has no argument blocks="):
        s.o.gpu_tile(i, j, 4, 4, i0, j0, i1, j1, blocks=[i0])
