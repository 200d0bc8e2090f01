"""prefetch: what is asked for, a line each, and never read; refused where nothing could be prefetched."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, c0, c1, i, i0, i1, j, j0, j1, k, r, r0, r1
from tests.schedule.storage.test_stores import jammed
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.backends.c.streaming_stores import ends_of_rows
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.interpret import run
from tiramisu_py.ir import Prefetch, Ramp
from tiramisu_py.lower import lower


def _asked(source: str) -> list[str]:
    return re.findall(r"TM_PREFETCH\((.*)\);", source)


def test_each_row_of_a_jammed_blur_asks_for_one_line():
    s = jammed(None)
    s.bx.prefetch(s.image, c, 256)
    assert texts(s.f)[-1] == "bx.prefetch(image, c, 256)"
    asked = _asked(s.f.source()["blur.c"])
    full = [line for line in asked if "c + 256" in line][:10]
    rows = ["8*r0*(C + 2)", *(f"(8*r0 + {row})*(C + 2)" for row in range(1, 10))]
    assert full == [f"image, {row} + c + 256, 3" for row in rows]


def test_unrolled_rows_that_overlap_ask_for_each_row_once():
    R, C = tm.params("R C")
    f = tm.Function("pairs", params=[R, C], assume="R >= 1 and C >= 1")
    x = f.input("x", tm.float32, [R + 1, C])
    y = f.computation("y", {r: R, c: C}, x[r, c] + x[r + 1, c])
    f.outputs(y)
    y.tile(r, c, 4, 16, r0, c0, r1, c1)
    y.unroll(r1)
    y.vectorize(c1, 16)
    y.prefetch(x, r1, 4)
    asked = _asked(f.source()["pairs.c"])
    rows = [int(found[1]) for line in asked if (found := re.search(r"\(4\*r0 \+ (\d+)\)\*C \+ 16\*c0, 3$", line))]
    assert rows[:5] == [4, 5, 6, 7, 8], "the second row of each is the first of the next"
    assert rows[5:6] != [5]


def test_it_is_in_the_pseudocode_and_can_be_undone():
    s = jammed(None)
    plain = s.f.source()
    s.bx.prefetch(s.image, c, 64, locality=0)
    assert "prefetch image[r, c + 64]" in s.f.show("pseudocode")
    assert texts(s.f)[-1] == "bx.prefetch(image, c, 64, locality=0)"
    s.bx.prefetch(s.image, c, 128)
    assert "c + 64" not in s.f.show("pseudocode") and "prefetch image[r, c + 128]" in s.f.show("pseudocode")
    s.f.undo()
    s.f.undo()
    assert s.f.source() == plain and "tm_stores.h" not in plain


@pytest.mark.parametrize("nontemporal", [False, True])
def test_results_and_memory_are_what_they_were(nontemporal):
    s = jammed(0 if nontemporal else None)
    s.bx.prefetch(s.image, c, 256)
    compiled = Compiled(lower(s.f.completed), "-O0", "-march=native", *SANITISERS)
    for R, C in ((9, 48), (3, 21)):
        image = np.random.default_rng(R).random((R + 2, C + 2), dtype=np.float32)
        found = compiled.sanitised({"R": R, "C": C}, image=image, by=np.zeros((R, C), np.float32))
        np.testing.assert_array_equal(found["by"], s.f.evaluate(image, R=R, C=C))


def test_a_vector_of_several_lines_asks_for_each():
    s = pl.scale()
    s.o.vectorize(j, 64).prefetch(s.a, j, 128)
    asked = _asked(s.f.source()["scale.c"])
    assert asked == [f"a, i*M + j + {place}, 3" for place in (128, 144, 160, 176)]


def test_rows_that_no_later_vector_goes_on_with_are_asked_for_to_their_last_element():
    """Tiles of two vectors begin anywhere in a line, so their last element may be in another line than their vectors
    begin in.
    """
    s = pl.scale()
    s.o.tile(i, j, 4, 16, i0, j0, i1, j1).vectorize(j1, 8).prefetch(s.a, i1, 2)
    found = [re.sub(r"\s", "", line) for line in _asked(s.f.source()["scale.c"])]
    assert found[:3] == [f"a,(4*i0+i1+2)*M+16*j0{place},3" for place in ("", "+8", "+15")]


def test_rows_ahead_and_the_machine():
    s = pl.matmul()
    s.C.update.reorder(i, k, j).vectorize(j, 16).prefetch(s.B, k, 2)
    assert "prefetch B[k + 2, j]" in s.f.show("pseudocode")
    assert _asked(s.f.source()["mm.c"]) == ["B, (k + 2)*M + j, 3"]
    a, b = np.ones((3, 4), np.float32), np.arange(4 * 17, dtype=np.float32).reshape(4, 17)
    out = np.zeros((3, 17), np.float32)
    run(lower(s.f.completed), {"A": a, "B": b, "C": out}, {"N": 3, "M": 17, "K": 4})
    np.testing.assert_array_equal(out, a @ b)


def test_an_update_asks_for_what_it_adds_to():
    s = pl.matmul()
    s.C.update.tile(i, j, 4, 16, i0, j0, i1, j1).reorder(i0, j0, k, i1, j1)
    s.C.update.vectorize(j1, 16).prefetch(s.C, i0, 1)
    assert "prefetch C[4 * i0 + i1 + 4, 16 * j0 + j1]" in s.f.show("pseudocode")
    a, b = np.ones((9, 3), np.float32), np.arange(3 * 17, dtype=np.float32).reshape(3, 17)
    out = np.zeros((9, 17), np.float32)
    run(lower(s.f.completed), {"A": a, "B": b, "C": out}, {"N": 9, "M": 17, "K": 3})
    np.testing.assert_array_equal(out, a @ b)


def test_an_update_of_registers_asks_for_nothing():
    s = pl.matmul()
    tile = s.C.update.split(k, 8, r0, r1).rfactor(r0)
    tile.store_in(tm.REGISTER)
    with pytest.raises(tm.CommandError, match=r"update reads .* in registers: there is nothing to prefetch"):
        tile.update.prefetch(tile, i, 1)


def test_the_start_of_a_sum_reads_nothing():
    s = pl.matmul()
    with pytest.raises(tm.CommandError, match=r"C\.init does not read C in a loop i"):
        s.C.init.prefetch(s.C, i)


def test_a_computation_in_memory_and_its_copy():
    s = pl.blur()
    s.by.vectorize(c, 16).prefetch(s.bx, r, 1)
    assert "prefetch bx[r + 1, c]" in s.f.show("pseudocode") and "prefetch bx[r + 3, c]" in s.f.show("pseudocode")
    s = pl.blur()
    s.by.split(r, 8, r0, r1)
    copy = s.by.copy(s.bx, [i, j], at=r0)
    s.by.prefetch(copy, r1, 1)
    assert "prefetch bx_cache[" in s.f.show("pseudocode")


def test_what_is_read_from_elsewhere_then_is_refused():
    s = pl.blur()
    s.by.prefetch(s.bx, r, 1)
    with pytest.raises(tm.CommandError, match=r"bx cannot be inlined: by prefetches it, and then it is in no memory"):
        s.bx.inline()
    s.by.split(r, 8, r0, r1)
    with pytest.raises(tm.CommandError, match=r"by prefetches bx, but would read it from bx_cache: leave out"):
        s.by.copy(s.bx, [i, j], at=r0)


def test_what_is_kept_in_registers_is_not_asked_for():
    s = jammed(None)
    s.by.prefetch(s.bx, c, 16)
    body = s.f.source()["blur.c"]
    assert all(asked.startswith("image") for asked in _asked(body)) and "bx_0" in body


def test_where_values_say_what_is_read_nothing_is_loaded_ahead():
    (N,) = tm.params("N")
    f = tm.Function("gathered", params=[N], assume="N >= 1")
    at, a = f.input("at", tm.int64, [N]), f.input("a", tm.float32, [N])
    o = f.computation("o", {i: N}, a[tm.minimum(tm.maximum(at[i], 0), N - 1)])
    f.outputs(o)
    with pytest.raises(tm.CommandError, match="depends on values"):
        o.prefetch(a, i)
    o.prefetch(at, i, 64)
    assert _asked(f.source()["gathered.c"]) == ["at, i + 64, 3"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (lambda s: s.o.prefetch(s.a, k), "no loop k"),
        (lambda s: s.o.prefetch(s.o, j), "o does not read o in a loop j"),
        (lambda s: s.o.prefetch(s.a, j, 0), "distance is 0"),
        (lambda s: s.o.prefetch(s.a, j, 1.5), "distance is 1.5"),
        (lambda s: s.o.prefetch(s.a, j, locality=4), "locality=4"),
        (lambda s: s.o.prefetch(s.a, j, locality=True), "locality=True"),
        (lambda s: s.o.prefetch("a", j), "'a' is neither an input nor a computation"),
        (
            lambda s: s.o.prefetch(pl.scale().a, j),
            "a belongs to another function scale, not to scale: give what scale has declared",
        ),
        (lambda s: s.o.tag_gpu([i], [j]).prefetch(s.a, j), "runs on a GPU"),
    ],
)
def test_it_is_refused_where_there_is_nothing_to_ask_for(command, words):
    with pytest.raises(tm.CommandError, match=words):
        command(pl.scale())


def test_a_loop_with_which_the_read_does_not_move_is_refused():
    """There is nothing to load ahead, and where loops of its own do it, these are named."""
    s = pl.blur()
    s.by.tile(r, c, 8, 16, r0, c0, r1, c1)
    s.bx.compute_at(s.by, c0)
    with pytest.raises(tm.CommandError, match=r"bx reads image\[r, c\], .* with c0 alone; choose one of r, c$"):
        s.bx.prefetch(s.image, c0, 4)
    s.bx.prefetch(s.image, r, 4)
    s.by.prefetch(s.bx, c1, 4)
    assert s.f.show("pseudocode").count("prefetch image[r + 4, c") == 1


def test_a_loop_that_is_gone_is_an_error_in_words():
    s = pl.scale()
    s.o.prefetch(s.a, j, 16).tile(i, j, 4, 4, i0, j0, i1, j1)
    with pytest.raises(UnsupportedError, match=r"o\.prefetch\(a, j\): the loop j is no longer there"):
        s.f.show("pseudocode")


def test_of_two_prefetches_of_one_place_the_first_ends_the_row() -> None:
    one, other = (Prefetch("a", (Ramp(Iter("c", tm.int64), 16),), 3, "s") for _ in range(2))
    scope: Any = SimpleNamespace(arrays={"a": SimpleNamespace(flat=lambda indices: indices[0])}, innermost="")
    for nodes in ([one, other], [other, one]):
        assert ends_of_rows(nodes, scope) == {id(nodes[0])}
