"""The event log of a compiled function: what is in it, what it costs where there is none, and how it is read."""

from __future__ import annotations

import json
import math
import re
import shutil
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.mpi.launching import implementations
from tests.programs.ranks.mpi_programs import PROGRAMS
from tests.programs.traced import chunks, compiled, cooperative, image, on_cores, with_text
from tests.toolchain.test_export import sh
from tiramisu_py.backends import emit
from tiramisu_py.passes import traced
from tiramisu_py.toolchain import gpu_count
from tiramisu_py.toolchain.compilers.mpi import mpi4py
from tiramisu_py.toolchain.traces.trace import Trace, TraceEvent

with_gxx = pytest.mark.skipif(without_cxx(), reason=CXX)
TRIES = 30


# -- without a trace


@pytest.mark.parametrize("make", [on_cores, cooperative, chunks])
def test_the_text_of_a_function_without_a_trace_knows_nothing_of_it(make):
    for name, text in make().source().items():
        if name not in ("tm_gpu.c", "tm_gpu.h", "tm_cuda.h"):  # where it is what the preprocessor leaves out
            assert "trace" not in text.lower(), name


def test_a_trace_only_adds_calls_to_the_text_of_a_function():
    f = on_cores()
    plain, told = f.source()["blur.c"], emit(traced(f.show("lowered")))["blur.c"]
    assert told != plain
    first, after = told.index("// what the last call"), told.index("static int blur_check")
    without = told[:first] + told[after:]
    kept = [line for line in without.split("\n") if "tm_trace" not in line]
    assert "\n".join(kept) == plain


@pytest.mark.parametrize("make", [on_cores, pytest.param(cooperative, marks=with_gxx)])
def test_nothing_of_a_trace_is_in_a_library_without_one(make):
    device = {} if make is on_cores else {"device": "simulator"}
    plain, told = make().compile(**device), make().compile(**device, trace=True)
    words = re.compile(rb"trace|clock_gettime|cuEventElapsedTime")
    assert words.search(told.library.read_bytes())
    assert not words.search(plain.library.read_bytes())
    with pytest.raises(tm.ArgumentError, match=r"blur keeps no trace: give trace=True to blur\.compile"):
        _ = plain.trace


# -- on the host


def test_nests_have_the_names_of_their_statements_and_follow_each_other():
    f, picture = on_cores(), image(60, 40)
    kernel = f.compile(trace=True)
    np.testing.assert_array_equal(kernel(picture, G=0), f.evaluate(picture, G=0))
    trace = kernel.trace
    assert [(event.kind, event.name) for event in trace.events] == [("nest", "bx"), ("nest", "by")]
    first, second = trace.events
    assert first.begin == 0 and first.end <= second.begin and trace.seconds == second.end
    assert all(event.on_host and event.seconds > 0 and event.rank == 0 for event in trace.events)


def test_a_trace_is_that_of_the_last_call_of_a_thread():
    kernel = on_cores().compile(trace=True)
    with pytest.raises(tm.ArgumentError, match="blur has no trace: it has not been called in this thread"):
        _ = kernel.trace
    kernel(image(5, 5), G=0)
    own = kernel.trace
    seen = []

    def elsewhere() -> None:
        with pytest.raises(tm.ArgumentError):
            _ = kernel.trace
        kernel(image(6, 6), G=0)
        seen.append(kernel.trace)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert kernel.trace is own and seen[0] is not own and seen[0].start > own.start
    kernel(image(5, 5), G=0)
    assert kernel.trace is not own and len(kernel.trace.events) == 2
    with pytest.raises(tm.ArgumentError, match="needs R >= G"):
        kernel(image(5, 5), G=6)
    with pytest.raises(tm.ArgumentError, match="its last call failed"):
        _ = kernel.trace
    kernel(np.zeros((2, 5), np.float32), G=0)
    assert kernel.trace.events == ()


@pytest.mark.parametrize(
    ("change", "kept", "words"),
    [("#define TM_TRACE_MOST 1", 1, "more than"), ("#define realloc(p, n) NULL", 0, "there was no memory for them")],
)
def test_events_that_there_is_no_room_for_are_dropped_and_counted(change, kept, words):
    def changed(sources):
        smaller = with_text("tm_trace.h", "log->room == 0 ? 256", "log->room == 0 ? 1")(sources)
        return with_text("tm_trace.h", "#ifndef TM_TRACE_MOST", f"{change}\n#ifndef TM_TRACE_MOST")(smaller)

    f, picture = on_cores(), image(9, 9)
    kernel = compiled(f, changed)
    np.testing.assert_array_equal(kernel(picture, G=0), f.evaluate(picture, G=0))
    trace = kernel.trace
    assert (len(trace.events), trace.dropped) == (kept, 2 - kept)
    assert f"and {trace.dropped} that were dropped ({words}" in str(trace)


# -- with a GPU


@with_gxx
def test_a_gpu_and_the_cores_compute_at_once_and_the_host_waits_no_earlier_than_it_must():
    f, picture = cooperative(), image(700, 1022)
    kernel = f.compile(device="simulator", timing="threads", trace=True)
    for _ in range(TRIES):
        result = kernel(picture, G=100)
        trace = kernel.trace
        (launch,), (nest,), (run,) = (trace.of(kind=kind) for kind in ("launch", "nest", "kernel"))
        (upload,), (download,) = trace.of(kind="upload"), trace.of(kind="download")
        assert (launch.name, run.name, nest.name) == ("by_0", "by_0", "by_1")
        assert launch.begin < launch.end <= nest.begin
        last = trace.of(kind="wait") or [event for event in trace.of(kind="copy") if event.name == download.name]
        assert all(event.begin >= nest.end for event in last if event.end >= download.end)
        assert launch.begin <= run.begin and upload.end <= run.begin and run.end <= download.begin
        assert upload.bytes == 102 * 1024 * 4 and download.bytes == 100 * 1022 * 4
        if trace.overlap("kernel", "nest") > 0:
            break
    else:
        pytest.fail("in no run did the kernel and the nest overlap")
    np.testing.assert_array_equal(result, f.evaluate(picture, G=100))


@with_gxx
@pytest.mark.parametrize("timing", ["eager", "lazy", "shuffled", "threads"])
def test_each_launch_in_a_loop_of_the_host_is_an_event_and_so_is_its_run(timing):
    f, picture = chunks(), image(70, 30)
    kernel = f.compile(device="simulator", timing=timing, seed=3, trace=True)
    np.testing.assert_array_equal(kernel(picture, G=0), f.evaluate(picture, G=0))
    trace = kernel.trace
    launches, runs = trace.of(kind="launch"), trace.of(kind="kernel")
    assert len(launches) == len(runs) == 5
    assert all(a.begin <= b.begin < b.end for a, b in zip(launches, runs, strict=True))
    assert all(a.end <= b.begin for a, b in pairwise(runs))
    (upload,), (download,) = trace.of(kind="upload"), trace.of(kind="download")
    assert upload.end <= runs[0].begin and runs[-1].end <= download.begin
    assert {(event.device, event.stream, event.place) for event in runs} == {(0, 0, "GPU 0, stream 0")}


@with_gxx
def test_times_are_the_same_where_the_driver_only_says_how_far_events_are_apart():
    """As a real driver does: the simulator says when they happened, and is not asked here."""
    change = with_text("tm_gpu.c", '"tm_simulator_time"', '"tm_simulator_has_no_such"')
    kernel = compiled(chunks(), change, device="simulator", timing="eager")
    kernel(image(70, 30), G=0)
    trace = kernel.trace
    launches, runs = trace.of(kind="launch"), trace.of(kind="kernel")
    assert len(runs) == 5
    for launch, run in zip(
        launches, runs, strict=True
    ):  # all is done during the launch; clocks are not compared exactly
        assert launch.begin - 1e-3 < run.begin < run.end < launch.end + 1e-3


@pytest.mark.gpu
def test_a_real_gpu_has_times_on_the_clock_of_the_host():
    assert gpu_count()
    f, picture = cooperative(), image(2000, 4094)
    kernel = f.compile(trace=True)
    for _ in range(3):
        result = kernel(picture, G=1000)
    np.testing.assert_array_equal(result, f.evaluate(picture, G=1000))
    trace = kernel.trace
    (launch,), (run,) = trace.of(kind="launch"), trace.of(kind="kernel")
    (upload,), (download,) = trace.of(kind="upload"), trace.of(kind="download")
    assert upload.end <= run.begin and run.end <= download.begin
    assert launch.begin < run.begin + 1e-4 and download.end < trace.seconds + 1e-4


# -- for C


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_sources_with_a_trace_compile_without_a_warning(compiler, tmp_path: Path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    for name, text in emit(traced(cooperative().show("lowered"))).items():
        (tmp_path / name).write_text(text)
    strict = "-Wall -Wextra -Werror -fsyntax-only"
    sh(f"{compiler} -std=c11 {strict} -Wpedantic -Wconversion tm_gpu.c", tmp_path)
    sh(f"{compiler} -std=gnu11 -fwrapv -fopenmp {strict} blur.c", tmp_path)
    (tmp_path / "main.c").write_text('#include "blur.h"\nint main(void) { blur_trace_free(); return 0; }\n')
    sh(f"{compiler} -std=c99 -pedantic {strict} main.c", tmp_path)


@with_gxx
@pytest.mark.parametrize("make", [on_cores, cooperative])
def test_a_c_program_writes_the_trace_of_an_exported_function(make, tmp_path: Path):
    folder = (
        make().compile(trace=True, **({} if make is on_cores else {"device": "simulator"})).export(tmp_path / "made")
    )
    (tmp_path / "main.c").write_text(
        '#include <stdlib.h>\n#include "blur.h"\n'
        "int main(void) {\n"
        "  float *x = calloc(22 * 32, 4), *y = calloc(20 * 30, 4);\n"
        "  for (int n = 0; n < 2; n++)\n"
        "    if (blur(20, 30, 10, x, y) != 0) return 1;\n"
        '  if (blur_trace_write("trace.json") != 0 || blur_trace_write("/no/such/folder") == 0) return 2;\n'
        "  blur_trace_free();\n  free(x);\n  free(y);\n  return 0;\n}\n"
    )
    flags = (
        "-std=gnu11 -fwrapv -fopenmp -Wall -Wextra -Werror -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    )
    sources = " ".join(path.name for path in folder.glob("*.c"))
    sh(f"gcc {flags} -I. ../main.c {sources} -o main -Wl,-rpath,. -lm -ldl -lpthread", folder)
    sh("./main", folder, ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0")
    written = json.loads((folder / "trace.json").read_text())["traceEvents"]
    check_chrome(written)
    names = [event["name"] for event in written if event["ph"] == "X" and event["cat"] in ("nest", "kernel")]
    assert sorted(names) == (["bx", "by"] if make is on_cores else ["by_0", "by_1"])


def check_chrome(events: list[dict]) -> None:
    """What the format asks for: complete events with times, on threads that have names."""
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"} == {pid for pid, _ in named}
    complete = [e for e in events if e["ph"] == "X"]
    assert complete and {e["ph"] for e in events} == {"X", "M"}
    for event in complete:
        assert (
            isinstance(event["name"], str) and isinstance(event["cat"], str) and (event["pid"], event["tid"]) in named
        )
        assert event["dur"] >= 0 and math.isfinite(event["ts"]) and event["ts"] >= 0


# -- on ranks


@pytest.mark.mpi(2)
def test_the_trace_of_all_ranks_has_every_message_with_its_bytes():
    comm = mpi4py().COMM_WORLD
    (C,) = tm.params("C")
    r, c, q, s = tm.iters("r c q s")
    f = tm.Function("halves", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [8, C])
    b = f.computation("b", {r: 8, c: C}, a[r, c] * 2)
    d = f.computation("d", {r: (1, 7), c: C}, b[r - 1, c] + b[r + 1, c], shape=[8, C])
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([r, c], rank=r // 4)
    for stage in (b, d):
        stage.split(r, 4, q, s)
        stage.tag_distribute(q)
    f.derive_transfers()
    whole = np.random.default_rng(1).random((8, 6), dtype=np.float32)
    kernel = f.compile(trace=True)
    for _ in range(2):
        result = kernel(f.part("a", whole, comm.rank), comm=comm)
    np.testing.assert_array_equal(result, f.part("d", f.evaluate(whole), comm.rank))
    own = kernel.trace
    assert own.ranks == (comm.rank,)
    trace = own.gathered(comm)
    assert trace.ranks == (0, 1) and trace.events[0].begin == 0
    assert comm.allgather(trace) == [trace, trace]
    for rank in (0, 1):
        assert {event.name for event in trace.of(kind="nest", rank=rank)} == {"b", "d"}
    mine = trace.of(rank=comm.rank)
    assert [(e.name, e.kind) for e in mine] == [(e.name, e.kind) for e in own.events]
    assert [e.seconds for e in mine] == pytest.approx([e.seconds for e in own.events], abs=1e-9)
    counted = f.cost("communication", C=6)
    sends, receives = trace.of(kind="send"), trace.of(kind="receive")
    assert len(sends) == len(receives) == counted.messages == 2
    assert sum(e.bytes for e in sends) == sum(e.bytes for e in receives) == counted.bytes
    assert {(e.rank, e.peer) for e in sends} == {(0, 1), (1, 0)} == {(e.rank, e.peer) for e in receives}
    for send in sends:  # one clock: what comes after the message on the other rank is later than its begin here
        (after,) = trace.of(kind="nest", name="d", rank=send.peer)
        assert send.begin < after.begin


@pytest.mark.mpi(4)
def test_the_messages_in_a_trace_are_those_that_were_counted():
    comm = mpi4py().COMM_WORLD
    for name in ("partly collapsed", "buffered sends", "columns in parts"):
        f, given = PROGRAMS[name]()
        kernel = f.compile(trace=True)
        kernel(**{n: f.part(n, x, comm.rank) if isinstance(x, np.ndarray) else x for n, x in given.items()}, comm=comm)
        trace = kernel.trace.gathered(comm)
        counted = f.cost("communication", **{param: given[param] for param in f.algorithm.params})
        for kind in ("send", "receive"):
            found = trace.of(kind=kind)
            assert (len(found), sum(e.bytes for e in found)) == (counted.messages, counted.bytes), name


@pytest.mark.skipif(not implementations(), reason="no MPI on this machine")
def test_a_distributed_function_without_a_trace_knows_nothing_of_it():
    text = PROGRAMS["partly collapsed"]()[0].source()["stages.c"]
    assert "trace" not in text and "MPI_Barrier" not in text


# -- what a trace answers


def made(*events: tuple[str, str, float, float], **more: object) -> Trace:
    return Trace("f", tuple(TraceEvent(*event, **more) for event in events))


def test_overlap_counts_the_time_in_which_both_run_once():
    trace = made(
        ("a", "kernel", 0, 4), ("b", "kernel", 3, 6), ("c", "kernel", 9, 10),
        ("n", "nest", 1, 2), ("n", "nest", 5, 9.5), ("m", "nest", 20, 21),
    )  # fmt: skip
    assert trace.overlap("kernel", "nest") == pytest.approx(1 + 1 + 0.5)
    assert trace.overlap("nest", "kernel") == trace.overlap("kernel", "nest")
    assert trace.overlap("a", "n") == 1 and trace.overlap("m", "kernel") == 0
    assert trace.overlap(trace.of(name="c"), "nest") == 0.5
    assert trace.busy("kernel") == 7 and trace.busy("m") == 1 and trace.busy("nothing") == 0


def test_overlap_is_that_of_counting_moments():
    rng = np.random.default_rng(5)
    for _ in range(20):
        begins = rng.integers(0, 50, 12)
        events = [
            (f"e{n}", "nest" if n % 2 else "kernel", int(b), int(b + rng.integers(1, 9))) for n, b in enumerate(begins)
        ]
        trace = made(*events)
        runs = {kind: {t for _, k, b, e in events if k == kind for t in range(b, e)} for kind in ("nest", "kernel")}
        assert trace.overlap("nest", "kernel") == len(runs["nest"] & runs["kernel"])
        assert trace.busy("nest") == len(runs["nest"])


def test_events_are_chosen_by_kind_name_rank_and_device():
    trace = made(("a", "nest", 0, 1), ("b", "nest", 1, 2), ("b", "wait", 2, 3))
    assert [e.kind for e in trace.of(name="b")] == ["nest", "wait"]
    assert trace.of(kind="nest", name="b") == trace.events[1:2]
    assert trace.of(rank=1) == () == trace.of(device=0) and trace.of(rank=0) == trace.events
    with pytest.raises(tm.ArgumentError, match="kind='kernels' is no kind of event; there are nest, launch,"):
        trace.of(kind="kernels")


def test_a_saved_trace_has_a_process_for_each_rank_and_a_thread_for_each_place(tmp_path: Path):
    events = [
        TraceEvent('a "b"', "nest", 0, 1e-3, rank=0),
        TraceEvent("k", "kernel", 2e-3, 3e-3, rank=1, device=0, stream=1),
        TraceEvent("s", "send", 1e-3, 2e-3, rank=1, bytes=12, peer=0, tag=3),
    ]
    path = Trace("f", tuple(events), dropped=2).save(tmp_path / "trace.json")
    text = json.loads(path.read_text())
    check_chrome(text["traceEvents"])
    assert text["otherData"] == {"dropped": 2}
    complete = [e for e in text["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"]) for e in complete] == [
        ('a "b"', 0, pytest.approx(1000)), ("k", pytest.approx(2000), pytest.approx(1000)),
        ("s", pytest.approx(1000), pytest.approx(1000)),
    ]  # fmt: skip
    assert complete[2]["args"] == {"kind": "send", "bytes": 12, "peer": 0, "tag": 3}
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in text["traceEvents"] if e["name"] == "thread_name"}
    assert [names[e["pid"], e["tid"]] for e in complete] == ["host", "GPU 0, stream 1", "host"]


def test_a_trace_is_printed_as_a_table():
    trace = Trace("f", (
        TraceEvent("by", "nest", 0, 1e-3), TraceEvent("by", "nest", 2e-3, 4e-3),
        TraceEvent("up", "upload", 1e-3, 2e-3, device=0, stream=0, bytes=8),
    ))  # fmt: skip
    assert str(trace).split("\n") == [
        "f: 3 events in 4.000 ms",
        "where            kind    name  count     ms  bytes",
        "host             nest    by        2  3.000",
        "GPU 0, stream 0  upload  up        1  1.000      8",
    ]
