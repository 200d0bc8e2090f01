"""Commands as values: their text, when they are equal, and what they are applied to."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tests.programs.pipelines import blur, c, c0, i, i0, i1, pair, r, r0, r1, scale
from tiramisu_py import derive, schedule
from tiramisu_py.function.saving.plain import kind_of
from tiramisu_py.program.command import Command, every_command
from tiramisu_py.schedule.command_fields import Whole
from tiramisu_py.schedule.locality.slide import Slide
from tiramisu_py.schedule.loops.transforms import Split

OUT = Whole("o", "o", "o")


def test_a_command_is_what_its_arguments_are_and_its_text_follows():
    s = scale()
    s.o.split(i, 4, i0, i1)
    (command,) = s.f.commands
    assert command == Split(OUT, i, 4, i0, i1) and hash(command) == hash(Split(OUT, i, 4, i0, i1))
    assert command != Split(OUT, i, 8, i0, i1) and command != Split(OUT, i, 4, i0, i1, origin=2)
    assert (str(command), str(Split(OUT, i, 4, i0, i1, origin=2))) == (
        "o.split(i, 4, i0, i1)", "o.split(i, 4, i0, i1, origin=2)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (Slide(OUT, r), "o.slide(r)"),
        (Slide(OUT, r, c, 4), "o.slide(r, c, 4)"),
        (Slide(OUT, r, None, 4, origin=1), "o.slide(r, origin=1, by=4)"),
        (Slide(OUT, r, origin=0), "o.slide(r)"),
    ],
)
def test_arguments_are_written_by_position_until_one_is_left_out(command: Command, text: str):
    assert str(command) == text


def test_a_function_of_an_algorithm_and_commands_is_that_which_they_were_taken_from():
    s = blur()
    s.by.split(r, 8, r0, r1).parallelize(r0)
    s.bx.compute_at(s.by, r0)
    s.bx.fold(r, 10)
    g = tm.Function.of(s.f.algorithm, s.f.commands)
    assert g.commands == s.f.commands
    assert g.source() == s.f.source()


def test_a_list_of_commands_can_be_cut_and_changed():
    s = pair()
    s.p.parallelize(i)
    s.q.split(i, 8, i0, i1).vectorize(i1, 8)
    s.q.parallelize(i0)
    kept = [command for command in s.f.commands if str(command) != "q.vectorize(i1, 8)"]
    g = tm.Function.of(s.f.algorithm, kept)
    assert texts(g) == ("p.parallelize(i)", "q.split(i, 8, i0, i1)", "q.parallelize(i0)")
    assert texts(tm.Function.of(s.f.algorithm)) == ()
    with pytest.raises(tm.CommandError, match=r"q.parallelize\(i0\): no loop i0 here"):
        tm.Function.of(s.f.algorithm, [kept[0], kept[2]])


def test_commands_of_one_function_are_applied_to_another_with_the_same_names():
    a, b = blur(), blur()
    a.f.create_xfer({r: tm.Param("R"), c: tm.Param("C")}, a.image[r, c], tm.CPU2GPU, name="up")
    a.by.separate_at(r, [4])[0].split(c, 4, c0, i)
    g = tm.Function.of(b.f.algorithm, a.f.commands)
    assert g.commands == a.f.commands
    assert g.program.statements["up"].link.transfer is not None
    with pytest.raises(tm.CommandError, match="belongs to another function"):
        b.f.create_xfer({r: tm.Param("R"), c: tm.Param("C")}, a.image[r, c], tm.CPU2GPU)


def test_parts_are_found_again_by_what_they_were_cut_from():
    s = scale()
    first, _ = s.o.separate_at(i, [4])
    first.split(i, 2, i0, i1)
    first.separate_at(i0, [1])
    first.vectorize(i1, 2)
    g = tm.Function.of(s.f.algorithm, s.f.commands)
    assert list(g.program.statements) == list(s.f.program.statements)
    assert texts(g) == texts(s.f)


@pytest.mark.parametrize("given", ["o.split(i, 4, i0, i1)", None])
def test_what_is_no_command_is_refused(given: object):
    with pytest.raises(tm.CommandError, match="is not a command: give those of a function"):
        tm.Function.of(scale().f.algorithm, [given])  # type: ignore[list-item]
    with pytest.raises(
        tm.DeclarationError, match=r"is not an algorithm: Function\.of takes .* f\.algorithm.* tm\.load"
    ):
        tm.Function.of(scale().f)  # type: ignore[arg-type]


def test_what_is_no_list_of_commands_is_refused():
    f = scale().f
    f["o"].split(i, 4, i0, i1)
    for given in (f.commands[0], None, f):
        with pytest.raises(tm.CommandError, match=r"is no list of commands: give Function\.of .* f\.commands"):
            tm.Function.of(f.algorithm, given)  # type: ignore[arg-type]


def test_commands_of_another_algorithm_name_what_it_lacks():
    f = scale().f
    f["o"].split(i, 4, i0, i1)
    g = tm.Function("other")
    g.outputs(g.computation("p", {i: 8}, i))
    with pytest.raises(tm.CommandError, match="other has no computation o; it has p"):
        tm.Function.of(g.algorithm, f.commands)


def test_every_command_is_known_to_files_once_a_function_is_there():
    known = every_command()
    for room in (schedule, derive):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    assert set(every_command()) == set(known) and len({kind_of(kind) for kind in known}) == len(known) > 50


def test_editors_know_the_commands_that_a_module_makes_methods_of():
    assert tm.Selection.split.__doc__ == Split.__doc__
    assert "Cut a loop into blocks" in (inspect.getdoc(tm.Selection.split) or "")
    assert inspect.signature(tm.Computation.split).return_annotation == "Self"
    assert inspect.signature(tm.Selection.separate_at).return_annotation == "tuple[Selection, ...]"


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda s: s.q.compute_at(3, i), r"q\.compute_at\(3, i\): 3 is not a computation of pair"),
        (
            lambda s: s.q.compute_at(pair().p, i),
            "p belongs to another function pair, not to pair: give what pair has declared",
        ),
        (lambda s: s.q.copy("p", [i], at=i), "'p' is neither an input nor a computation of pair"),
        (lambda s: s.f.order(s.p, at=i), r"pair\.order\(p, at=i\): order needs at least two computations"),
        (lambda s: s.f.order(s.p, (s.q,), at=i), r"\(q,\) is several handles: unpack it"),
        (lambda s: s.f.remove(s.a), "pair cannot remove a: give a transfer, exchange, wait, barrier or copy of pair"),
    ],
)
def test_what_is_no_handle_of_this_function_is_refused(use: Callable[[SimpleNamespace], object], said: str):
    s = pair()
    before = s.f.program
    with pytest.raises(tm.CommandError, match=said):
        use(s)
    assert s.f.program is before
