"""Changes of one fact of a certificate for a GPU, after each of which it is wrong."""

from __future__ import annotations

from collections.abc import Callable

import islpy as isl

from tests.proof.certificates import gpu_programs as programs
from tests.proof.certificates.changes import Change, Document, after, read_from, statement_of, swapped, without
from tiramisu_py import Function


def queued(name: str, **given: int | None) -> Change:
    """Another queue, or another number of coordinates that say when it is issued and which block runs it."""
    return lambda document: statement_of(document, name)["queue"].update(given)


def on_the_host(name: str) -> Change:
    """The host runs what a kernel ran."""
    return lambda document: statement_of(document, name).update(queue=None, devices=[None, None])


def moved(name: str, home: str, to: str, source: str | None = None) -> Change:
    """A store, or the read of a source, is in another array."""

    def change(document: Document) -> None:
        holder, key = (statement_of(document, name), "store") if source is None else (_reads(document, name), source)
        holder[key] = str(isl.Map(holder[key]).set_tuple_name(isl.dim_type.out, to))
        assert home != to

    return change


def _reads(document: Document, name: str) -> Document:
    return statement_of(document, name)["reads"]


def kept(home: str, **given: object) -> Change:
    return lambda document: document["places"][home].update(given)


def barrier_at(then: str) -> Change:
    """The barrier comes at other times."""

    def change(document: Document) -> None:
        (barrier,) = document["barriers"]
        barrier["come"] = str(isl.Map(barrier["come"]).apply_domain(isl.Map(then)))

    return change


def some_come(threads: str) -> Change:
    """Only some of the threads come to the barrier."""

    def change(document: Document) -> None:
        (barrier,) = document["barriers"]
        barrier["come"] = str(isl.Map(barrier["come"]).intersect_range(isl.Set(threads)))

    return change


def some_are_known(threads: str) -> Change:
    """The barrier is for some of the threads alone."""

    def change(document: Document) -> None:
        some_come(threads)(document)
        (barrier,) = document["barriers"]
        barrier["threads"] = str(isl.Set(barrier["threads"]).intersect(isl.Set(threads)))

    return change


def wait(by: str, of: str) -> Callable[[Document], Document]:
    return lambda document: next(w for w in document["waits"] if (w["by"], w["of"]) == (by, of))


def without_wait(by: str, of: str) -> Change:
    return lambda document: document["waits"].remove(wait(by, of)(document))


def waiting(by: str, of: str, then: str) -> Change:
    """A wait comes at other times."""

    def change(document: Document) -> None:
        found = wait(by, of)(document)
        found["issued"] = str(isl.Map(found["issued"]).apply_range(isl.Map(then)))

    return change


def waited_by(by: str, of: str, other: str) -> Change:
    return lambda document: wait(by, of)(document).update(by=other)


def ending(of: str, by: str, then: str) -> Change:
    """Operations are claimed to be complete at other times."""

    def change(document: Document) -> None:
        found = next(e for e in document["evidence"]["ends"] if (e["of"], e["by"]) == (of, by))
        found["ends"] = str(isl.Map(found["ends"]).apply_range(isl.Map(then)))

    return change


def fewer_values(name: str, those: str) -> Change:
    """A transfer of fewer values."""

    def change(document: Document) -> None:
        given = statement_of(document, name)
        given["instances"] = str(isl.Set(given["instances"]).intersect(isl.Set(those)))

    return change


def uncombined(name: str, *kept_: int | str) -> Change:
    return lambda document: statement_of(document, name).update(combined=[*kept_])


def one_thread_more(name: str) -> Change:
    """The threads are counted from 1."""
    return after(name, "thread", "{ [x, y, z] -> [x + 1, y, z] }")


def all_of(*changes: Change) -> Change:
    return lambda document: [change(document) for change in changes] and None


def only_the_host_waits(document: Document) -> None:
    """In the end it waits for each queue, so that nothing is wrong but the order of the queues."""
    ends = [e for e in document["evidence"]["ends"] if e["by"] == "host"]
    document["evidence"]["ends"] = ends
    document["waits"] = [{"by": "host", "of": e["of"], "issued": e["ends"]} for e in ends]


def waited_for_in_the_end(document: Document) -> None:
    """The host waits for queue 1 when it waits for queue 0."""
    for found in (document["waits"], document["evidence"]["ends"]):
        found.extend([each | {"of": "0.1"} for each in found if (each["by"], each["of"]) == ("host", "0.0")])


def counted(name: str) -> Change:
    """The number of a thread is a time, as if one ran after another."""

    def change(document: Document) -> None:
        given = statement_of(document, name)
        both = isl.Map(given["time"]).flat_range_product(isl.Map(given["thread"]))
        then = isl.Map("{ [a, b, c, d, e, f, g, h, x, y, z] -> [a, b, c, d, e, x, g, h] }")
        given["time"] = str(both.apply_range(then))

    return change


def run_by_one_thread(name: str) -> Change:
    return after(name, "thread", "{ [x, y, z] -> [0, 0, 0] }")


#: Times of programs with two host loops at most, and with three: another position in the first loop, or in the second.
_OF_KERNELS = "{ [a, b, c, d, e, f] -> [a, %s, c, d, e, f] }"
_OF_TILES = "{ [a, b, c, d, e, f, g, h] -> [a, %s, c, d, e, f, g, h] }"
_INSIDE = "{ [a, b, c, d, e, f, g, h] -> [a, b, c, %s, e, f, g, h] }"
_AT_LOOP = "{ [a, b, c, d, e, f, g, h] -> [a, b, %s, d, e, f, g, h] }"
_LATE = "{ [a, b, c, d, e, f] -> [3, b, c, d, e, f] }"

CHANGES: dict[str, tuple[Callable[[], Function], Change]] = {
    # kernels in one queue
    "no transfer": (programs.kernels, without("x_to_gpu")),
    "no transfer back": (programs.kernels, without("q_to_cpu")),
    "a transfer of fewer values": (programs.kernels, fewer_values("x_to_gpu", "[N] -> { x_to_gpu[i] : i < N - 1 }")),
    "a transfer after its kernel": (programs.kernels, after("x_to_gpu", "time", _OF_KERNELS % "b + 2")),
    "a transfer for which nobody waits": (programs.kernels, without_wait("host", "0.0")),
    "a transfer in a queue of its own": (
        programs.kernels,
        all_of(queued("x_to_gpu", stream=1), waited_for_in_the_end),
    ),
    "a kernel in a queue of its own": (programs.kernels, all_of(queued("p", stream=1), waited_for_in_the_end)),
    "a kernel on another GPU": (programs.kernels, queued("p", device=1)),
    "kernels in the other order": (programs.kernels, swapped("p", "q")),
    "two kernels that are one": (programs.kernels, after("q", "time", _OF_KERNELS % "1")),
    "a kernel reads the host's memory": (programs.kernels, moved("p", "x_gpu0", "x", "x")),
    "a kernel stores to the host's memory": (programs.kernels, moved("q", "q_gpu0", "q")),
    "the host computes in the GPU's memory": (programs.kernels, on_the_host("p")),
    "a transfer to where it came from": (programs.kernels, moved("q_to_cpu", "q", "q_gpu0")),
    "each block has its own array": (programs.kernels, kept("p_gpu0", loops=3)),
    "each thread has its own array": (programs.kernels, kept("p_gpu0", thread=True)),
    "each kernel has its own array": (programs.kernels, kept("p_gpu0", loops=2)),
    "kernels issued at one time": (programs.kernels, all_of(queued("p", issue=1), queued("q", issue=1))),
    "blocks that the host runs": (programs.kernels, queued("p", issue=4)),
    "the caller's arrays on a queue": (
        programs.kernels,
        lambda d: statement_of(d, "q_found").update(queue=dict(statement_of(d, "q_to_cpu")["queue"])),
    ),
    "it is claimed to be complete at once": (programs.kernels, ending("0.0", "host", _OF_KERNELS % "0")),
    "it is complete after the end": (
        programs.kernels,
        all_of(waiting("host", "0.0", _LATE), ending("0.0", "host", _LATE)),
    ),
    # a tile in shared memory
    "no barrier": (programs.tile, lambda d: d["barriers"].clear()),
    "a barrier too early": (programs.tile, barrier_at(_INSIDE % "d - 2")),
    "a barrier too late": (programs.tile, barrier_at(_INSIDE % "d + 2")),
    "a barrier of another kernel": (programs.tile, barrier_at(_OF_TILES % "b + 1")),
    "a barrier of other blocks": (
        programs.tile,
        barrier_at(_AT_LOOP % "-1 - c"),
    ),
    "a barrier of another queue": (programs.tile, lambda d: d["barriers"][0].update(queue="0.1")),
    "a barrier to which some threads come": (programs.tile, some_come("{ [x, y, z] : x > 0 }")),
    "a barrier for some threads": (programs.tile, some_are_known("{ [x, y, z] : x > 0 }")),
    "a tile for all blocks": (programs.tile, kept("p", loops=0)),
    "a tile for each kernel": (programs.tile, kept("p", loops=2)),
    "a tile for each thread": (programs.tile, kept("p", thread=True)),
    "a tile for each row of it": (programs.tile, kept("p", loops=5)),
    "a smaller tile": (programs.tile, kept("p", elements="{ p[i] : 0 <= i < 8 }")),
    "threads with other numbers": (programs.tile, one_thread_more("q")),
    "threads one after another": (programs.tile, all_of(counted("p"), counted("q"), lambda d: d["barriers"].clear())),
    "one thread fills the tile": (programs.tile, all_of(run_by_one_thread("p"), lambda d: d["barriers"].clear())),
    "one block for all": (programs.tile, all_of(queued("p", block=2), queued("q", block=2))),
    "a tile that is filled after it is read": (programs.tile, after("p", "time", _INSIDE % "d + 3")),
    # waits
    "a kernel that does not wait": (programs.streams, without_wait("0.0", "0.1")),
    "a transfer that does not wait": (programs.streams, without_wait("0.2", "0.0")),
    "the host does not wait": (programs.streams, without_wait("host", "0.2")),
    "a wait on another queue": (programs.streams, waited_by("0.0", "0.1", "0.3")),
    "a wait after the kernel": (programs.streams, waiting("0.0", "0.1", _INSIDE % "5")),
    "a wait in the next row": (
        programs.streams,
        waiting("0.0", "0.1", _AT_LOOP % "c + 1"),
    ),
    "a wait before the transfer": (programs.streams, waiting("0.0", "0.1", _INSIDE % "d - 2")),
    "the host waits too early": (
        programs.streams,
        waiting("host", "0.2", "{ [a, b, c, d, e, f, g, h] -> [a, 0, 0, 5, e, f, g, h] }"),
    ),
    "a claim that a wait comes earlier": (
        programs.streams,
        ending("0.1", "0.0", _AT_LOOP % "c - 1"),
    ),
    "no claim of an end": (
        programs.streams,
        all_of(ending("0.1", "host", "{ [a, b, c, d, e, f, g, h] -> [a, b, c, d, e, f, g, h] : a < 0 }")),
    ),
    "only the host waits": (programs.streams, only_the_host_waits),
    "all rows are one kernel": (programs.streams, queued("p", issue=1)),
    # partial results
    "blocks that are not combined": (programs.atomic_sum, uncombined("s_update", 2, "x")),
    "threads that are not combined": (programs.atomic_sum, uncombined("s_update", 2, 4)),
    "nothing is combined": (programs.atomic_sum, uncombined("s_update")),
    "partial results of other values": (programs.atomic_sum, after("s_update", "store", "{ s_gpu0[i] -> s_gpu0[0] }")),
    # copies that are complete at the next barrier
    "a deferred copy without a barrier": (programs.deferred, lambda d: d["barriers"].clear()),
    "a deferred copy by the thread that reads it": (programs.deferred_rows, lambda d: d["barriers"].clear()),
    # registers
    "a register for all threads": (programs.registers, kept("s", thread=False)),
    "a register for all blocks": (programs.registers, kept("s", loops=0)),
    "another thread's register": (programs.registers, one_thread_more("c")),
    "no barriers": (programs.registers, lambda d: d["barriers"].clear()),
    "a barrier less": (programs.registers, lambda d: d["barriers"].pop()),
    "another barrier less": (programs.registers, lambda d: d["barriers"].pop(0)),
    "other elements of a tile": (
        programs.registers,
        read_from("s_update", "a", "{ a_shared[i, k] -> a_shared[k, i] }"),
    ),
}
