"""Views of a function: each takes its own arguments, and what is no view is answered with all of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (
            lambda f: f.show("loop"),
            """blur.show('loop'): 'loop' is no view: it has "picture", "messages", "loops", "ps""",
        ),
        (lambda f: f.show(8), "blur.show(8): 8 is no view: it has"),
        (lambda f: f.show(f["bx"]), "is no view: it has"),
        (
            lambda f: f.cost("bytes", N=3),
            """is no view: it has "counts", "symbolic", "communication", "memory", "ker""",
        ),
    ],
)
def test_what_is_no_view_is_answered_with_all(look: Any, words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=re.escape(words)):
        look(pl.blur().f)


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (
            lambda f: f.show("history"),
            "blur.show('history') lacks computation: write blur.show('history', computation)",
        ),
        (lambda f: f.show("loops", N=3), "has the argument N=, and show takes none"),
        (
            lambda f: f.show("lowered", until="cse", unroll=2),
            "the argument unroll=, and show takes vector_bytes, until",
        ),
        (lambda f: f.show("messages", 3), "blur.show('messages', 3) has 2 of at most 1 argument without a name"),
        (lambda f: f.cost("memory", 3), "blur.cost('memory', 3) has 2 of at most 1 argument without a name"),
    ],
)
def test_an_argument_of_another_view_is_refused(look: Any, words: str) -> None:
    with pytest.raises(tm.CallError, match=re.escape(words)):
        look(pl.blur().f)


def test_a_size_may_be_called_as_a_view_is() -> None:
    """`what` is given by its place, so that a parameter may have that name."""
    what, memory = tm.params("what memory")
    (i,) = tm.iters("i")
    f = tm.Function("f", params=[what, memory])
    f.outputs(f.computation("a", {i: what + memory}, 2 * i))
    assert f.cost(what=3, memory=4).statements[0].instances == 7
    assert f.show("picture", what=3, memory=4).scenes[0].sizes == {"what": 3, "memory": 4}
