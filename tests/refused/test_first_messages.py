"""The messages that docs/howto/errors.md lists are those that the compiler gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "errors.md"
N, M = tm.params("N M")
i, j, i0, i1 = tm.iters("i j i0 i1")


def _chain(name: str = "f") -> tuple[tm.Function, tm.Computation, tm.Computation]:
    f = tm.Function(name, params=[N])
    a = f.input("a", tm.float32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return f, p, q


def _another_loop() -> object:
    return _chain()[2].vectorize(j, 8)


def _no_reader() -> object:
    _, p, q = _chain()
    return q.compute_at(p, i)


def _early() -> object:
    f, p, q = _chain()
    q.after(p, i)
    return f.check()


def _overwritten() -> object:
    f, p, _ = _chain()
    p.store_in([i % 2])
    return f.check()


def _parallel_recurrence() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    h = f.computation("h", {i: N}, lambda h: tm.select(i > 0, h[i - 1] + a[i], a[i]))
    f.outputs(h)
    h.parallelize(i)
    return f.check()


def _outside() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("b", {i: N}, a[i + 1]))
    return f.check()


def _unknown_index() -> object:
    f = tm.Function("f", params=[N])
    a, x = f.input("a", tm.float32, [N]), f.input("x", tm.int32, [N])
    f.outputs(f.computation("b", {i: N}, a[x[i]]))
    return f.check()


def _endless() -> object:
    f = tm.Function("f", params=[N])
    f.input("a", tm.float32, [N])
    h = f.computation("h", {i: N}, lambda h: h[N - 1 - i] + 1, dtype=tm.float32)
    f.outputs(h)
    return f.check()


def _product_of_sizes() -> object:
    return tm.Function("f", params=[N, M], assume="N*M > 3")


def _index_of_floats() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    return f.computation("b", {i: N}, a[a[i]])


def _another_type() -> object:
    return _chain()[0].compile()(np.ones(5))


def _in_columns() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N, N])
    f.outputs(f.computation("b", {i: N}, a[i, i]))
    return f.compile()(np.ones((4, 4), np.float32).T[:, ::-1])


def _not_taken_out() -> object:
    n = tm.params("N")
    return n + 1  # type: ignore[operator]


def _no_parentheses() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    return f.computation("b", {i: N}, tm.select(a[i] > 0 & (a[i] < 1), a[i], 0))  # type: ignore[operator]


def _call_that_lacks_loops() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    return f.computation("b", {i: N}, a[i]).split(i, 8)  # type: ignore[call-arg]


def _without_first_values() -> object:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("z", {i: N}, lambda z: z[i - 1] + a[i], dtype=tm.float32))
    return f.check()


CASES: dict[str, Callable[[], object]] = {
    "no loop <j> here: <b> has the loops <i>": _another_loop,
    "is a tuple, as tm.params gives": _not_taken_out,
    "bind more tightly than comparisons": _no_parentheses,
    "<call> lacks outer, inner": _call_that_lacks_loops,
    "give <z> its first values": _without_first_values,
    "no statement in loop <i0> reads <p>": _no_reader,
    "<q> reads <p> before it is computed": _early,
    "<q> reads <p>, where <p> has been written in the meantime": _overwritten,
    "<h> reads <h> ..., where it is stored in another iteration of the parallel loop": _parallel_recurrence,
    "<b> reads <a>, which is outside the array": _outside,
    "nothing is known of the index <x>": _unknown_index,
    "depends on itself": _endless,
    "is not a condition that isl reads": _product_of_sizes,
    "is float32, not an integer": _index_of_floats,
    "has dtype float64, not float32; convert it": _another_type,
    "is not contiguous in row-major order": _in_columns,
}  # fmt: skip


def _said(action: Callable[[], object]) -> str:
    try:
        return str(action())
    except tm.TiramisuError as error:
        return str(error)


def _listed() -> Iterator[str]:
    yield from re.findall(r"^\| `([^`]*)` \|", PAGE.read_text().split("## Messages")[1], re.MULTILINE)


@pytest.mark.parametrize("message", CASES)
def test_a_message_of_the_page_on_errors_is_given(message: str) -> None:
    pattern = re.sub(r"<\w+>", r".+?", re.sub(r" \\?\.\\?\.\\?\.", " .+", re.escape(message).replace(r"\ ", " ")))
    assert re.search(pattern, _said(CASES[message]), re.DOTALL), _said(CASES[message])


def test_the_page_lists_the_messages_that_are_tried_here() -> None:
    elsewhere = {"<j> names several loops", "unknown", "no C compiler"}
    assert set(_listed()) == {*CASES, *elsewhere}
