"""Wrong certificates for ranks that are written to deceive the checkers: each looked right to earlier ones."""

from __future__ import annotations

from collections.abc import Callable

import islpy as isl

from tests.proof.certificates import rank_programs as programs
from tests.proof.certificates.changes import Change, Document, after, more, spared, statement_of
from tests.proof.certificates.gpu_changes import kept
from tests.proof.certificates.rank_changes import RECEIVED, SENT, TIME, waited_and_claimed
from tiramisu_py import Function


def waits_at(document: Document, of: str, issued: str, ends: str | None = None) -> None:
    """The host waits for a queue at other times."""
    for found in (*document["waits"], *document["evidence"]["ends"]):
        if (found["of"], found["by"]) == (of, "host"):
            found.update({"issued": issued} if "issued" in found else {"ends": ends or issued})


def deadlock(document: Document) -> None:
    """All ranks receive from both sides before they send, and each receive blocks, but is said not to wait."""
    for name in ("u_to_previous_receive", "u_to_next_receive"):
        given = statement_of(document, name)
        given["message"]["waits"] = False
        times = isl.Set(given["instances"]).apply(isl.Map(given["time"]))
        start = times.apply(isl.Map("{ [r, m, a, t, b, q, c, i, d] -> [r, m, a, t, b, q, c, 0, 0] }"))
        waits_at(document, f"None.{name}", str(start.identity()))


def at_one_time(document: Document) -> None:
    """Each rank sends and receives at one time, whatever comes first; both block."""
    for name, ranks in (("m_send", "0 <= r <= 2"), ("m_receive", "1 <= r <= 3")):
        after(name, "time", f"{{ [{TIME}] -> [r, 1, 0, 0, 0, 0, 0, j, 0] }}")(document)
        at = f"[r, 1, 0, 0, 0, 0, 0, 0, 0] : N > 0 and {ranks}"
        waits_at(document, f"None.{name}", f"[N] -> {{ [r, 1, 0, 0, 0, 0, 0, 0, 0] -> {at} }}")
    document["evidence"]["ranking"] = f"{{ [{TIME}] -> [0] }}"


def of_the_row_that_is_sent(document: Document, queue: Document, devices: list[int | None], array: str) -> None:
    """An operation copies what is sent to another array of the host, from which it is sent."""
    spared(document, "x")
    where = "[N] -> { copied[q, i, j] : 0 <= q <= 2 and i = 4q + 3 and 0 <= j < N }"
    sender = next(name for name in document["evidence"]["flow"] if name.endswith("_send"))
    source = "x_to_gpu" if array == "x_gpu0" else "x_given"
    size = isl.Map(statement_of(document, sender)["time"]).range_tuple_dim()
    rest = ", 0" * (size - 9)
    more(
        document, "copied", {"x": {source: f"{{ [copied[q, i, j] -> x[k, l]] -> {source}[q, k, l] }}"}}, role="copy",
        source="x", instances=where, point="{ copied[q, i, j] -> x[i, j] }", queue=queue, devices=devices,
        time=f"{{ copied[q, i, j] -> [q, 1, 4, 0, 0, i, 0, j, 0{rest}] }}", thread="{ copied[q, i, j] -> [0, 0, 0] }",
        store="{ copied[q, i, j] -> spare[i, j] }", reads={"x": f"{{ [copied[q, i, j] -> x[k, l]] -> {array}[k, l] }}"},
    )  # fmt: skip
    kept("spare", held="{ spare[r, i, j] }")(document)
    given = statement_of(document, sender)
    given["reads"]["x"] = f"{{ [{sender}[q, i, j] -> x[k, l]] -> spare[k, l] }}"
    flow = document["evidence"]["flow"]
    flow[sender]["x"] = {"copied": f"{{ [{sender}[q, i, j] -> x[k, l]] -> copied[q, k, l] }}"}


def on_the_queue_of_the_send(document: Document) -> None:
    """A copy is put on the queue of a message, as if the message would come after it."""
    queue = {"device": None, "stream": "m_send", "issue": 7, "block": 9}
    of_the_row_that_is_sent(document, queue, [None, None], "x")
    after("m_send", "time", f"{{ [{TIME}] -> [{TIME.replace('a', '5')}] }}")(document)
    after("s", "time", f"{{ [{TIME}] -> [{TIME.replace('a', '6')}] }}")(document)
    starts = "{ [r, 1, a, 0, 0, i, 0, 0, 0] : N > 0 and 0 <= r <= 2 and i = 4r + 3 and 4 <= a <= 5 }"
    waits_at(document, "None.m_send", str(isl.Set(f"[N] -> {starts}").identity()))
    document["evidence"]["ranking"] = f"{{ [{TIME}] -> [r - 1] : a = 0; [{TIME}] -> [r] : a > 0 }}"


def after_an_operation(document: Document) -> None:
    """A message waits for a queue of a GPU, which no message can."""
    of_the_row_that_is_sent(document, {"device": 0, "stream": 0, "issue": 5, "block": 11}, [0, None], "x_gpu0")
    time = "r, m, a, q, b, i, c, j, d, e, f"
    for name, at in (("x_to_next_send", 6), ("s", 7), ("s_to_cpu", 8)):
        after(name, "time", f"{{ [{time}] -> [{time.replace('a', str(at))}] }}")(document)
    rest = "0, 0, 0, 0, 0, 0, 0, 0"
    ranks = "N > 0 and 0 <= r <= 2"
    waits_at(document, SENT, f"[N] -> {{ [r, 1, 6, {rest}] -> [r, 1, 9, {rest}] : {ranks} }}")
    waits_at(
        document, "0.0", f"[N] -> {{ [r, 1, 8, {rest}] -> [r, 1, 8, {rest}] : N > 0 and 0 <= r <= 3 }}",
        f"[N] -> {{ [r, 1, a, 0, 0, i, 0, 0, 0, 0, 0] -> [r, 1, 8, {rest}] : "
        "N > 0 and 0 <= r <= 3 and (3 <= a < 8 or (a = 8 and i = 0)) }",
    )  # fmt: skip
    issued = f"[N] -> {{ [r, 1, 4, {rest}] -> [r, 1, 5, {rest}] : {ranks} }}"
    document["waits"].append({"by": SENT, "of": "0.0", "issued": issued})
    document["evidence"]["ends"].append({"of": "0.0", "by": SENT, "ends": issued})
    document["evidence"]["ranking"] = f"{{ [{time}] -> [0, a] : a = 0; [{time}] -> [r + 1, a] : a > 0 }}"


def waited_for_by_a_gpu(document: Document) -> None:
    """A queue of a GPU waits for a message, which only the host can, and the host for the queue alone."""
    for found in (*document["waits"], *document["evidence"]["ends"]):
        if found["of"] == RECEIVED:
            found["by"] = "0.0"
    rest = "0, 0, 0, 0, 0, 0, 0, 0"
    late = f"[N] -> {{ [r, 1, 0, {rest}] -> [r, 1, 7, {rest}] : N > 0 and 0 < r <= 3 }}"
    document["waits"].append({"by": "host", "of": RECEIVED, "issued": late})
    document["evidence"]["ends"].append({"by": "host", "of": RECEIVED, "ends": late})


def received_twice(document: Document) -> None:
    """A message brings another value to each place first; which one stays is not known."""
    for name, at in (("m_send", "q, 1, 1"), ("m_receive", "q, 1, 0")):
        given = statement_of(document, name)
        of, index = f"{name}[q, i, j, k]", "{ [q, i, j] -> [q, i, j, k] : 0 <= k <= 1 }"
        those = isl.Map(index).set_tuple_name(isl.dim_type.in_, name).set_tuple_name(isl.dim_type.out, name)
        given["instances"] = str(isl.Set(given["instances"]).apply(those))
        given["point"] = f"[N] -> {{ {of} -> x[i, N - 1 - j] : k = 0; {name}[q, i, j, 1] -> x[i, j] }}"
        given["time"] = f"{{ {of} -> [{at}, 0, 0, i, 0, j, k] }}"
        given["thread"] = f"{{ {of} -> [0, 0, 0] }}"
        given["message"]["peer"] = f"{{ {of} -> [q {'+' if name == 'm_send' else '-'} 1] }}"
    statement_of(document, "m_receive")["store"] = "{ m_receive[q, i, j, k] -> x[i, j] }"
    statement_of(document, "m_receive")["queue"]["block"] = 7
    statement_of(document, "m_send")["reads"]["x"] = "{ [m_send[q, i, j, k] -> x[o, p]] -> x[o, p] }"
    evidence = document["evidence"]
    evidence["flow"]["m_send"]["x"]["x_given"] = "{ [m_send[q, i, j, k] -> x[o, p]] -> x_given[q, o, p] }"
    evidence["flow"]["s"]["x"]["m_receive"] = "{ [s[i, j] -> x[o, p]] -> m_receive[q, o, p, 1] : o = i - 1 }"
    evidence["meetings"]["m"] = str(
        isl.Set(statement_of(document, "m_send")["instances"])
        .identity()
        .apply_range(isl.Map("{ m_send[q, i, j, k] -> m_receive[q + 1, i, j, k] }"))
    )


def waited_for_on_one_rank(document: Document) -> None:
    """Kernels of all ranks are issued before there are ranks, so that rank 0 waits for all of them."""
    document["computations"]["s"]["reads"]["value"] = {}
    given = statement_of(document, "s")
    given["reads"], document["evidence"]["flow"]["s"] = {}, {}
    given["queue"] |= {"stream": 1, "issue": 0}
    rest = "0, 0, 0, 0, 0, 0, 0, 0, 0"
    then = f"{{ [0, 0, {rest}] -> [0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0] }}"
    document["waits"].append({"by": "host", "of": "0.1", "issued": then})
    document["evidence"]["ends"].append({"by": "host", "of": "0.1", "ends": then})


CHANGES: dict[str, tuple[Callable[[], Function], Change]] = {
    "receives that wait for nobody": (programs.steps, deadlock),
    "halves at one time": (programs.rows, at_one_time),
    "a message at the time of a wait": (
        programs.derived, waited_and_claimed(RECEIVED, f"{{ [{TIME}] -> [{TIME.replace('a', '1')}] }}"),
    ),
    "nothing is the caller's": (programs.rows, kept("s", held="{ s[r, i, j] : 1 = 0 }")),
    "a copy on the queue of a message": (programs.rows, on_the_queue_of_the_send),
    "a message that waits for a GPU": (programs.with_gpus, after_an_operation),
    "a GPU that waits for a message": (programs.with_gpus, waited_for_by_a_gpu),
    "a message of two values to one place": (programs.rows, received_twice),
    "kernels without a rank": (programs.with_gpus, waited_for_on_one_rank),
}  # fmt: skip
