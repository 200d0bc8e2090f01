"""Wrong certificates that are written to deceive a checker: each looked right to an earlier one."""

from __future__ import annotations

import json
from collections.abc import Callable

import islpy as isl

from tests.proof.certificates import gpu_programs, programs
from tests.proof.certificates.changes import Change, Document, after, more, rational, spared, statement_of
from tests.proof.certificates.gpu_changes import kept, moved, queued
from tiramisu_py import Function


def spelled(rat: str) -> Change:
    """Points between integers, in another spelling of isl's word for them."""

    def change(document: Document) -> None:
        rational(document)
        document.update(json.loads(json.dumps(document).replace("rat:", json.dumps(rat)[1:-1])))

    return change


def stage_in_an_input(document: Document) -> None:
    """What p computes overwrites an input that nobody reads, and of which the certificate says nothing more."""
    spared(document, "p")
    document["inputs"]["spare"] = "[N] -> { spare[i] : 0 <= i < N }"
    moved("p", "p", "spare")(document)
    moved("q", "p", "spare", "p")(document)


def past_the_output(document: Document) -> None:
    """The array of q has an element that is no value of q, and something is stored there."""
    found = {"x": {"x_given": "{ [copied[i] -> x[j]] -> x_given[j] }"}}
    more(
        document, "copied", found, role="copy", source="x", instances="{ copied[0] }", point="{ copied[i] -> x[i] }",
        time="{ copied[i] -> [1, 0, 0, 0] }", store="[N] -> { copied[i] -> q[N - 1] }",
        reads={"x": "{ [copied[i] -> x[j]] -> x[j] }"},
    )  # fmt: skip
    kept("q", elements="[N] -> { q[i] : 0 <= i < N }", held="{ q[i] : 1 = 0 }")(document)


def copied_for_ever(document: Document) -> None:
    """Nobody computes p: each of its values is copied from an earlier copy, without a first one."""
    document["statements"].remove(statement_of(document, "p"))
    flow = document["evidence"]["flow"]
    more(
        document, "copied", {"p": {"copied": "{ [copied[i, t] -> p[i]] -> copied[i, t - 1] }"}}, role="copy",
        source="p", instances="[N] -> { copied[i, t] : 0 <= i < N and t <= 0 }", point="{ copied[i, t] -> p[i] }",
        time="{ copied[i, t] -> [1, 0, t, i] }", thread="{ copied[i, t] -> [] }", store="{ copied[i, t] -> p[i] }",
        reads={"p": "{ [copied[i, t] -> p[i]] -> p[i] }"},
    )  # fmt: skip
    flow["q"]["p"] = {"copied": "{ [q[i] -> p[j]] -> copied[j, 0] }"}


def inlined_sum(document: Document) -> None:
    """A sum is said to be inlined, and to read nothing; so nothing is added up."""
    document["inlined"].append("s")
    document["computations"]["s"]["reads"]["value"] = {}
    for name in ("s_init", "s_update"):
        document["statements"].remove(statement_of(document, name))


def merged_late(document: Document) -> None:
    """The loop keeps its partial results until it ends, and a value is read inside."""
    statement_of(document, "s_update")["private"] = statement_of(document, "s_update")["combined"]


def waited_for_by_waits(document: Document) -> None:
    """A wait for the kernels follows from the wait before it, without a first one."""
    document["waits"] = [
        {"by": "host", "of": "host", "issued": "{ [1, b, 0, 0, 0, 0] -> [1, b + 1, 0, 0, 0, 0] }"},
    ]
    claim = "{ [1, a, 0, 0, 0, 0] -> [1, b, 0, 0, 0, 0] : 0 <= a <= 3 }"
    document["evidence"]["ends"] = [{"of": "0.0", "by": "host", "ends": claim}]


def sent_twice(document: Document) -> None:
    """A transfer brings another value to each place first; which one stays is not known."""
    given = statement_of(document, "x_to_gpu")
    given |= {
        "instances": "[N] -> { x_to_gpu[i, k] : 0 <= i < N and 0 <= k <= 1 }",
        "point": "[N] -> { x_to_gpu[i, k] -> x[N - 1 - i] : k = 0; x_to_gpu[i, 1] -> x[i] }",
        "time": "{ x_to_gpu[i, k] -> [1, 0, i, k, 0, 0] }",
        "thread": "{ x_to_gpu[i, k] -> [0, 0, 0] }",
        "store": "{ x_to_gpu[i, k] -> x_gpu0[i] }",
        "reads": {"x": "{ [x_to_gpu[i, k] -> x[j]] -> x[j] }"},
    }
    flow = document["evidence"]["flow"]
    flow["x_to_gpu"]["x"]["x_given"] = "{ [x_to_gpu[i, k] -> x[j]] -> x_given[j] }"
    flow["p"]["x"]["x_to_gpu"] = "{ [p[i] -> x[j]] -> x_to_gpu[j, 1] }"
    queued("x_to_gpu", block=2)(document)


def tile_of_two_kernels(document: Document) -> None:
    """Each tile is filled by a kernel of its own, and read by one kernel that comes later."""
    earlier = "[N] -> { [a, b, c, d, e, f, g, h] -> [a, b, c - N, d, e, f, g, h] }"
    for name in ("p", "q"):
        after(name, "time", earlier)(document)
    queued("p", issue=3)(document)
    document["barriers"].clear()
    those = "0 <= a <= 1 or (a = 2 and b = 0)"
    claim = f"[N] -> {{ [1, a, b, 0, 0, 0, 0, 0] -> [1, 2, 0, 0, 0, 0, 0, 0] : N >= 2 and ({those}) }}"
    document["evidence"]["ends"] = [{"of": "0.0", "by": "host", "ends": claim}]


def threads_without_a_barrier(document: Document) -> None:
    """More threads of the kernel compute p elsewhere, and never come to its barrier."""
    spared(document, "x_gpu0")
    more(
        document, "other", {"x": {"x_to_gpu": "{ [other[b, i] -> x[j]] -> x_to_gpu[j] }"}}, role="value", source="p",
        instances="[N] -> { other[b, i] : 0 <= i < N and 8b <= i < 8b + 8 and 0 <= 8b <= N - 2 }",
        point="{ other[b, i] -> p[i] }", time="{ other[b, i] -> [1, 1, b, 5, 0, 0, 0, 0] }",
        thread="{ other[b, i] -> [8 + i - 8b, 0, 0] }", store="{ other[b, i] -> spare[i] }",
        queue=dict(statement_of(document, "p")["queue"]), devices=[0, 0],
        reads={"x": "{ [other[b, i] -> x[j]] -> x_gpu0[j] }"},
    )  # fmt: skip


def on_the_hosts_queue(document: Document) -> None:
    """A computation of the host is put on a queue that no GPU has."""
    queue = {"device": None, "stream": 0, "issue": 2, "block": 4}
    for each in document["statements"]:
        each["thread"] = str(isl.Map(each["thread"]).apply_range(isl.Map("{ [] -> [0, 0, 0] }")))
    for name in ("p", "q"):
        statement_of(document, name)["queue"] = dict(queue)
        after(name, "time", "{ [a, b, c, d] -> [a, b, 0, c] }")(document)
        queued(name, block=3)(document)
    both = str(isl.Map("{ [1, b, 0, 0] -> [1, b, 0, 0] : 0 <= b <= 1 }"))
    document["waits"] = [{"by": "host", "of": "None.0", "issued": both}]
    document["evidence"]["ends"] = [{"of": "None.0", "by": "host", "ends": both}]


CHANGES: dict[str, tuple[Callable[[], Function], Change]] = {
    "points between integers, with a space": (programs.stages, spelled("rat :")),
    "points between integers, in capitals": (programs.stages, spelled("RAT:")),
    "points between integers, in two lines": (programs.stages, spelled("rat\n:")),
    "points between integers, with a comment": (programs.stages, spelled("rat # \n:")),
    "an input that is not named": (programs.stages, stage_in_an_input),
    "an output array with more in it": (programs.stages, past_the_output),
    "values without a beginning": (programs.stages, copied_for_ever),
    "a sum that is inlined": (programs.total, inlined_sum),
    "partial results that are read before they are combined": (programs.read_beside, merged_late),
    "waits without a beginning": (gpu_programs.kernels, waited_for_by_waits),
    "a transfer of two values to one place": (gpu_programs.kernels, sent_twice),
    "a tile that outlives its kernel": (gpu_programs.tile, tile_of_two_kernels),
    "threads that do not come to the barrier": (gpu_programs.tile, threads_without_a_barrier),
    "a queue of the host": (programs.stages, on_the_hosts_queue),
}  # fmt: skip
