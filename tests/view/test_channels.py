"""Pictures of who sends what to whom: those of the guide, and what is in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tiramisu_py as tm
from tests.programs.ranks import mpi_stories as stories

PICTURES = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "pictures"


def drawn(name: str) -> str:
    """A picture of the guide."""
    if name == "blur":
        f: tm.Function = stories.module("blur").derived(4, 100)
        return f.show("messages", C=38)
    if name == "heat":
        f = stories.module("heat").derived(4, 24)
        return f.show("messages", T=1)
    f = stories.module("sums").on_all_ranks(4, 100)
    return f.show("messages")


@pytest.mark.parametrize("name", ["blur", "heat", "sums"])
def test_the_pictures_of_the_guide_are_those_that_are_drawn(name: str, request: pytest.FixtureRequest) -> None:
    path = PICTURES / f"{name}.svg"
    if request.config.getoption("--update-golden"):
        path.write_text(drawn(name))
    assert path.read_text() == drawn(name)


def test_there_is_a_box_for_each_rank_and_an_arrow_for_each_pair_that_exchanges() -> None:
    text = drawn("heat")
    assert re.findall(r">rank (\d)<", text) == ["0", "1", "2", "3"]
    assert len(re.findall(r'fill="none"', text)) == 8
    assert sorted(re.findall(r'fill="#333">([^<]*)<', text)) == ["10", "10", "11", "11", "11", "11", "9", "9"]


def test_too_many_ranks_and_none_are_refused() -> None:
    with pytest.raises(tm.ArgumentError, match="a picture of 100 ranks cannot be read"):
        stories.module("blur").derived(100, 100).show("messages", C=38)
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, 2 * a[i])
    f.outputs(b)
    for sizes in ({"N": 3}, {}):
        with pytest.raises(tm.ArgumentError, match=r'f has no ranks, .* write f.show\("picture", "f.html"\)'):
            f.show("messages", **sizes)
