"""Changes of one fact of a certificate, after each of which it is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import islpy as isl

from tests.proof.certificates import programs
from tiramisu_py import Function

Document = dict[str, Any]
Change = Callable[[Document], None]


def statement_of(document: Document, name: str) -> Document:
    return next(s for s in document["statements"] if s["name"] == name)


def after(name: str, key: str, then: str) -> Change:
    """A function of a statement's executions is followed by another one."""

    def change(document: Document) -> None:
        given = statement_of(document, name)
        given[key] = str(isl.Map(given[key]).apply_range(isl.Map(then)))

    return change


def read_from(name: str, source: str, then: str) -> Change:
    """A read looks at another place."""

    def change(document: Document) -> None:
        reads = statement_of(document, name)["reads"]
        reads[source] = str(isl.Map(reads[source]).apply_range(isl.Map(then)))

    return change


def reads_of(name: str, part: str, source: str, then: str) -> Change:
    """The algorithm reads other values."""

    def change(document: Document) -> None:
        reads = document["computations"][name]["reads"][part]
        reads[source] = str(isl.Map(reads[source]).apply_range(isl.Map(then)))

    return change


def unclaimed(kind: str, reader: str, source: str) -> Change:
    return lambda document: document["evidence"][kind][reader][source].clear()


def claimed_of(reader: str, source: str, writer: str, then: str) -> Change:
    """The flow names another execution of the writer."""

    def change(document: Document) -> None:
        claims = document["evidence"]["flow"][reader][source]
        claims[writer] = str(isl.Map(claims[writer]).apply_range(isl.Map(then)))

    return change


def without(name: str) -> Change:
    return lambda document: document["statements"].remove(statement_of(document, name))


def concurrent(name: str, depth: int) -> Change:
    return lambda document: statement_of(document, name)["concurrent"].append(2 * depth + 2)


def uncombined(name: str) -> Change:
    return lambda document: statement_of(document, name)["combined"].clear()


def at_the_time_of(name: str, other: str) -> Change:
    def change(document: Document) -> None:
        time = isl.Map(statement_of(document, other)["time"])
        statement_of(document, name)["time"] = str(time.set_tuple_name(isl.dim_type.in_, name))

    return change


def swapped(name: str, other: str) -> Change:
    """Two statements with like loops run at each other's times."""

    def change(document: Document) -> None:
        times = {each: isl.Map(statement_of(document, each)["time"]) for each in (name, other)}
        for one, two in ((name, other), (other, name)):
            statement_of(document, one)["time"] = str(times[two].set_tuple_name(isl.dim_type.in_, one))

    return change


def fewer(name: str) -> Change:
    """The first execution is left out."""

    def change(document: Document) -> None:
        given = statement_of(document, name)
        whole = isl.Set(given["instances"])
        given["instances"] = str(whole.subtract(whole.lexmin()))

    return change


def smaller(home: str) -> Change:
    """An array without its last element."""

    def change(document: Document) -> None:
        whole = isl.Set(document["places"][home]["elements"])
        document["places"][home]["elements"] = str(whole.subtract(whole.lexmax()))

    return change


def folded(name: str, size: int) -> Change:
    """An array of one dimension is a shorter ring."""

    def change(document: Document) -> None:
        ring = isl.Map(f"{{ {name}[i] -> {name}[i mod {size}] }}")
        for each in document["statements"]:
            if each["store"] is not None and f"-> {name}[" in each["store"]:
                each["store"] = str(isl.Map(each["store"]).apply_range(ring))
            if name in each["reads"]:
                each["reads"][name] = str(isl.Map(each["reads"][name]).apply_range(ring))

    return change


def again(name: str, new: str, then: str) -> Change:
    """A statement runs once more, with the same evidence, as another one at other times."""

    def change(document: Document) -> None:
        text = json.dumps(statement_of(document, name)).replace(f"{name}[", f"{new}[")
        document["statements"].append(json.loads(text) | {"name": new})
        after(new, "time", then)(document)
        flow = document["evidence"]["flow"]
        flow[new] = json.loads(json.dumps(flow.get(name, {})).replace(f"{name}[", f"{new}["))

    return change


def unknown_output(document: Document) -> None:
    document["outputs"].append("ghost")
    ghost = {"domain": "{ ghost[0] }", "points": None, "value": None, "reads": {"value": {}}}
    document["computations"]["ghost"] = ghost


def renamed_source(document: Document) -> None:
    statement_of(document, "p")["source"] = "q"


def two_of_a_name(document: Document) -> None:
    document["statements"].append(statement_of(document, "p"))


def more(document: Document, name: str, flow: dict[str, dict[str, str]] | None = None, **given: Any) -> None:
    """One statement more, and the evidence of its reads."""
    rest = {"name": name, "concurrent": [], "combined": [], "reads": {}, "store": None, "queue": None}
    rest |= {"private": [], "message": None, "devices": [None, None], "thread": f"{{ {name}[i] -> [] }}"}
    document["statements"].append(rest | given)
    document["evidence"]["flow"][name] = flow or {}


def incomparable_times(document: Document) -> None:
    """Other values of p are stored at all places, at times that no others are compared with."""
    given = {"x": {"x_given": "{ [p_late[i] -> x[j]] -> x_given[j] }"}}
    more(
        document, "p_late", given, role="value", source="p", instances="[N] -> { p_late[i] : 0 <= i < N }",
        point="{ p_late[i] -> p[i] }", time="{ p_late[i] -> [1, 0, i, 1] }",
        store="[N] -> { p_late[i] -> p[N - 1 - i] }", reads={"x": "{ [p_late[i] -> x[j]] -> x[j] }"},
    )  # fmt: skip
    document["evidence"]["references"]["p"] = {"p_late": "[N] -> { p_late[i] -> late[1, 0, i, 1] }"}


def spared(document: Document, home: str) -> None:
    """One array more, like another one."""
    places = document["places"]
    places["spare"] = places[home] | {"elements": places[home]["elements"].replace(f"{home}[", "spare[")}


def spare(document: Document, source: str, writer: str, flow: str, time: str) -> None:
    """A copy of an array of one dimension, of which others may be read."""
    spared(document, source)
    more(
        document, "copied", {source: {writer: flow}}, role="copy", source=source, time=time,
        instances="[N] -> { copied[i] : 0 <= i < N }", point=f"{{ copied[i] -> {source}[i] }}",
        store="{ copied[i] -> spare[i] }", reads={source: f"{{ [copied[i] -> {source}[j]] -> {source}[j] }}"},
    )  # fmt: skip


def found_elsewhere(document: Document) -> None:
    """The caller is to find its input in another array, where it did not put it."""
    spare(document, "x", "x_given", "{ [copied[i] -> x[j]] -> x_given[j] }", "{ copied[i] -> [1, -1, i, 0] }")
    statement_of(document, "x_found")["reads"]["x"] = "{ [x_found[i] -> x[j]] -> spare[j] }"
    document["evidence"]["flow"]["x_found"] = {"x": {"copied": "{ [x_found[i] -> x[j]] -> copied[j] }"}}


def copied_total(document: Document) -> None:
    """The reader of a sum reads a copy of it."""
    start = "{ [copied[i] -> s[j]] -> s_init[j] }"
    spare(document, "s", "s_init", start, "{ copied[i] -> [1, 2, i, 0, 0, 0] }")
    terms = document["evidence"]["terms"]
    terms["copied"] = json.loads(json.dumps(terms["o"]).replace("o[", "copied["))
    after("o", "time", "{ [a, b, c, d, e, f] -> [a, 9, c, d, e, f] }")(document)
    statement_of(document, "o")["reads"]["s"] = "{ [o[i] -> s[j]] -> spare[j] }"
    document["evidence"]["flow"]["o"] = {"s": {"copied": "{ [o[i] -> s[j]] -> copied[j] }"}}


def started_over_a_copy(document: Document) -> None:
    copied_total(document)
    more(
        document, "s_over", role="init", source="s", instances="[N] -> { s_over[i] : 0 <= i < N }",
        point="{ s_over[i] -> s[i] }", time="{ s_over[i] -> [1, 3, i, 0, 0, 0] }", store="{ s_over[i] -> spare[i] }",
    )  # fmt: skip


def added_to_a_copy(document: Document) -> None:
    copied_total(document)
    again("s_update", "s_over", "{ [a, b, i, c, k, d] -> [a, 3, i, c, k, d] }")(document)
    after("s_over", "store", "{ s[i] -> spare[i] }")(document)


def rational(document: Document) -> None:
    """Each second value of p is left out, and what reads it is served by an execution between two others."""
    given, reader = statement_of(document, "p"), statement_of(document, "q")
    given["instances"] = "[N] -> { p[m] : 0 <= 2m < N }"
    given["point"], given["store"] = "{ p[m] -> p[2m] }", "{ rat: p[m] -> p[2m] }"
    document["places"]["p"]["elements"] = "[N] -> { rat: p[i] : 0 <= i < N }"
    given["reads"]["x"] = "{ [p[m] -> x[j]] -> x[j] }"
    reader["reads"]["p"] = "{ rat: [q[i] -> p[j]] -> p[j] }"
    flow = document["evidence"]["flow"]
    flow["p"]["x"]["x_given"] = "{ [p[m] -> x[j]] -> x_given[j] }"
    flow["q"]["p"]["p"] = "{ rat: [q[i] -> p[j]] -> p[m] : j = 2m }"


def given_twice(document: Document) -> None:
    """The caller is to give its input in two arrays."""
    given = json.loads(json.dumps(statement_of(document, "x_given")).replace("x_given", "x_again"))
    document["statements"].append(given | {"store": given["store"].replace("-> x[", "-> spare[")})
    spared(document, "x")


def found_unasked(document: Document) -> None:
    """The caller is to find what is no output, so that it may be written to its arrays."""
    found = "{ [p_found[i] -> p[j]] -> p[j] }"
    more(
        document, "p_found", {"p": {"p": "{ [p_found[i] -> p[j]] -> p[j] }"}}, role="exit", source="p",
        instances="[N] -> { p_found[i] : 0 <= i < N }", point="{ p_found[i] -> p[i] }",
        time="{ p_found[i] -> [2, 0, 0, 0] }", reads={"p": found},
    )  # fmt: skip


def other_reference(document: Document) -> None:
    """The reference runs the executions of all loops backwards in time."""
    (times,) = document["evidence"]["references"].values()
    time = isl.Map(times["h"])
    names = [f"t{d}" for d in range(time.range_tuple_dim())]
    back = ", ".join([*names[:2], f"-{names[2]}", *names[3:]])
    times["h"] = str(time.apply_range(isl.Map(f"{{ [{', '.join(names)}] -> [{back}] }}")))


CHANGES: dict[str, tuple[Callable[[], Function], Change]] = {
    "no claim for a stage": (programs.stages, unclaimed("flow", "q", "p")),
    "no claim for an input": (programs.stages, unclaimed("flow", "p", "x")),
    "no claim for the caller": (programs.stages, unclaimed("flow", "q_found", "q")),
    "a claim of another execution": (programs.stages, claimed_of("q", "p", "p", "{ p[i] -> p[i + 1] }")),
    "a store at another place": (programs.stages, after("p", "store", "{ p[i] -> p[i - 1] }")),
    "a read from another place": (programs.stages, read_from("q", "p", "{ p[i] -> p[i - 1] }")),
    "another value at each place": (programs.stages, after("p", "point", "[N] -> { p[i] -> p[N - 1 - i] }")),
    "values that do not exist": (programs.stages, after("q", "point", "{ q[i] -> q[i + 1] }")),
    "other values are read": (programs.stages, reads_of("q", "value", "p", "{ p[i] -> p[i + 1] }")),
    "stages in the other order": (programs.stages, swapped("p", "q")),
    "stages at one time": (programs.stages, at_the_time_of("q", "p")),
    "a stage left out": (programs.stages, without("p")),
    "inputs that nobody gives": (programs.stages, without("x_given")),
    "outputs that nobody finds": (programs.stages, without("q_found")),
    "inputs that may change": (programs.stages, without("x_found")),
    "inputs that come late": (programs.stages, after("x_given", "time", "{ [a, b, c, d] -> [1, 9, c, d] }")),
    "outputs that are found early": (programs.stages, after("q_found", "time", "{ [a, b, c, d] -> [1, -9, c, d] }")),
    "an execution left out": (programs.stages, fewer("p")),
    "a smaller array": (programs.stages, smaller("p")),
    "a smaller input": (programs.stages, lambda d: d["inputs"].update(x="[N] -> { x[i] : 0 <= i < N - 1 }")),
    "an output more": (programs.stages, unknown_output),
    "another source": (programs.stages, renamed_source),
    "two statements of one name": (programs.stages, two_of_a_name),
    "a ring that is too short": (programs.ring, folded("p", 2)),
    "a producer that comes too late": (programs.ring, after("p", "time", "{ [a, b, i, c] -> [a, b, i + 1, c] }")),
    "stages that run at once": (programs.ring, lambda d: [concurrent(name, 0)(d) for name in ("p", "q")] and None),
    "a recurrence at once": (programs.recurrence, concurrent("h", 0)),
    "time runs back": (programs.recurrence, after("h", "time", "{ [a, b, t, c, d, e] -> [a, b, -t, c, d, e] }")),
    "tiles at once": (programs.tiled_recurrence, concurrent("h", 0)),
    "tiles that start together": (programs.tiled_recurrence, concurrent("h", 1)),
    "no claim for terms": (programs.total, unclaimed("terms", "o", "s")),
    "terms added again": (programs.total, again("s_update", "s_again", "{ [a, b, i, c, k, d] -> [a, b, i, c, k, 1] }")),
    "a term left out": (programs.total, fewer("s_update")),
    "a start left out": (programs.total, without("s_init")),
    "a late start": (programs.total, after("s_init", "time", "{ [a, b, c, d, e, f] -> [a, 1, c, 1, e, f] }")),
    "a start again": (programs.total, again("s_init", "s_start", "{ [a, b, i, c, d, e] -> [a, 1, i, 1, d, e] }")),
    "another term": (programs.total, after("s_update", "point", "{ s[i, k] -> s[i, 0] }")),
    "terms added at once": (programs.total, concurrent("s_update", 1)),
    "shared terms that are not combined": (programs.shared_total, uncombined("s_update")),
    "readers beside the shared terms": (programs.shared_total, at_the_time_of("o", "s_init")),
    "vectors along the sum": (programs.tiled_product, concurrent("c_update", 4)),
    "a copy that is started again": (programs.total, started_over_a_copy),
    "terms added to a copy": (programs.total, added_to_a_copy),
    "times that are not compared": (programs.stages, incomparable_times),
    "inputs that are found elsewhere": (programs.stages, found_elsewhere),
    "inputs that are given twice": (programs.stages, given_twice),
    "what nobody asked for": (programs.stages, found_unasked),
    "points between integers": (programs.stages, rational),
    "no sizes": (programs.stages, lambda d: d.update(parameters="[N] -> { : N < N }")),
    "inlined values that do not exist": (
        programs.bands,
        lambda d: d["computations"]["y"].update(domain="[N, M] -> { y[i, j] : 0 <= i < N and 0 < j < M }"),
    ),
    "bands that share an array": (programs.bands, lambda d: d["places"]["p"].update(loops=0)),
    "a value that is not inlined": (programs.bands, lambda d: d["inlined"].clear()),
}  # fmt: skip
