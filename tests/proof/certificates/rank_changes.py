"""Changes of one fact of a certificate for ranks, after each of which it is wrong."""

from __future__ import annotations

from collections.abc import Callable

import islpy as isl

from tests.proof.certificates import rank_programs as programs
from tests.proof.certificates.changes import Change, Document, after, read_from, statement_of
from tests.proof.certificates.gpu_changes import all_of, ending, fewer_values, kept, queued, waiting, without_wait
from tiramisu_py import Function

#: Times of these programs: the rank, the moment, and static positions and loops in turn.
TIME = "r, m, a, q, b, i, c, j, d"
SENT, RECEIVED = "None.x_to_next_send", "None.x_to_next_receive"


def peer(name: str, then: str) -> Change:
    """A half names another rank."""

    def change(document: Document) -> None:
        message = statement_of(document, name)["message"]
        message["peer"] = str(isl.Map(message["peer"]).apply_range(isl.Map(then)))

    return change


def met(name: str, then: str) -> Change:
    """A send is claimed to meet another receive."""

    def change(document: Document) -> None:
        meetings = document["evidence"]["meetings"]
        meetings[name] = str(isl.Map(meetings[name]).apply_range(isl.Map(then)))

    return change


def ranked(by: str) -> Change:
    return lambda document: document["evidence"].update(ranking=by)


def waited_and_claimed(of: str, then: str) -> Change:
    """The host waits at another time, and the claim says so, too."""
    return all_of(waiting("host", of, then), ending(of, "host", then))


def of_one_exchange(name: str, other: str) -> Change:
    """The messages of two exchanges have one name."""

    def change(document: Document) -> None:
        for end in ("send", "receive"):
            statement_of(document, f"{other}_{end}")["message"]["exchange"] = name

    return change


def wait_of_each(*names: str) -> Change:
    """The host waits for each element of a half that blocks."""

    def change(document: Document) -> None:
        for name in names:
            given = statement_of(document, name)
            times = isl.Set(given["instances"]).apply(isl.Map(given["time"]))
            for found in (*document["waits"], *document["evidence"]["ends"]):
                if found["of"] == f"None.{name}":
                    found["issued" if "issued" in found else "ends"] = str(times.identity())

    return change


#: What is changed, in the certificate of which program.
CHANGES: dict[str, tuple[Callable[[], Function], Change]] = {
    "a rank sends to another one": (programs.rows, peer("m_send", "{ [r] -> [r + 1] }")),
    "a rank receives from another one": (programs.rows, peer("m_receive", "{ [r] -> [r - 1] }")),
    "messages go the other way": (
        programs.rows, all_of(peer("m_send", "{ [r] -> [r - 2] }"), peer("m_receive", "{ [r] -> [r + 2] }")),
    ),
    "another value is sent": (programs.rows, after("m_send", "point", "{ x[i, j] -> x[i - 1, j] }")),
    "another value is received": (programs.rows, after("m_receive", "point", "{ x[i, j] -> x[i - 1, j] }")),
    "it is sent from another row": (programs.rows, read_from("m_send", "x", "{ x[i, j] -> x[i - 1, j] }")),
    "it is received into another row": (programs.rows, after("m_receive", "store", "{ x[i, j] -> x[i - 1, j] }")),
    "a send without its receive": (programs.rows, fewer_values("m_receive", "{ m_receive[q, i, j] : q > 1 }")),
    "a receive without its send": (programs.rows, fewer_values("m_send", "{ m_send[q, i, j] : q > 0 }")),
    "elements in another order": (
        programs.rows, after("m_receive", "time", f"{{ [{TIME}] -> [{TIME.replace('j', '-j')}] }}"),
    ),
    "messages in another order": (
        programs.single,
        all_of(
            after("m_receive", "time", f"{{ [{TIME}] -> [{TIME.replace('j', '-j')}] }}"), wait_of_each("m_receive"),
        ),
    ),
    "elements without an order": (
        programs.rows, after("m_send", "time", f"{{ [{TIME}] -> [{TIME.replace('j', '0')}] }}"),
    ),
    "one message is received in many": (
        programs.rows, all_of(queued("m_receive", issue=9), wait_of_each("m_receive")),
    ),
    "another send is claimed": (
        programs.rows, met("m", "{ m_receive[q, i, j] -> m_receive[q + 1, i + 4, j] }"),
    ),
    "no meeting is claimed": (programs.rows, met("m", "{ m_receive[q, i, j] -> m_receive[q, i, j] : 1 = 0 }")),
    "two exchanges in one": (programs.steps, of_one_exchange("u_to_next", "u_to_previous")),
    "nobody waits for a receive": (programs.derived, without_wait("host", RECEIVED)),
    "nobody waits for a send": (programs.derived, without_wait("host", SENT)),
    "a wait comes before": (
        programs.derived, waited_and_claimed(RECEIVED, f"{{ [{TIME}] -> [{TIME.replace('a', '-1')}] }}"),
    ),
    "a wait comes after what needs it": (
        programs.derived, waited_and_claimed(RECEIVED, f"{{ [{TIME}] -> [{TIME.replace('a', '5')}] }}"),
    ),
    "another rank waits": (
        programs.derived, waited_and_claimed(RECEIVED, f"{{ [{TIME}] -> [{TIME.replace('r', 'r + 1')}] }}"),
    ),
    "the ranking does not grow": (programs.derived, ranked(f"{{ [{TIME}] -> [0] }}")),
    "the ranking is of others": (programs.derived, ranked(f"{{ [{TIME}] -> [r, a] : r > 1 }}")),
    "each rank is said to wait in its own order alone": (
        programs.rows, ranked(f"{{ [{TIME}] -> [m, a, q, b, i, c, j, d] }}"),
    ),
    "ranks wait for each other": (programs.rows, ranked(f"{{ [{TIME}] -> [-r, a] }}")),
    "all ranks have one memory": (programs.rows, kept("x", loops=0)),
    "the halo is the caller's": (programs.rows, kept("x", held="{ x[r, i, j] }")),
    "a rank has no input": (programs.rows, fewer_values("x_given", "{ x_given[r, i, j] : r > 0 }")),
    "a rank has no result": (programs.rows, fewer_values("s_found", "{ s_found[r, i, j] : r > 0 }")),
    "another rank has the result": (
        programs.rows, after("s_found", "time", f"{{ [{TIME}] -> [{TIME.replace('r', 'r + 1')}] }}"),
    ),
    "a rank computes another's rows": (
        programs.rows, after("s", "time", f"{{ [{TIME}] -> [{TIME.replace('r', 'r + 1')}] }}"),
    ),
    "a message is taken from a GPU's memory": (programs.with_gpus, lambda d: _on_a_gpu(d, "x_to_next_send")),
}  # fmt: skip


def _on_a_gpu(document: Document, name: str) -> None:
    statement_of(document, name)["devices"] = [0, 0]
