"""Kernels of RGAT by what their warps do: Hector's figure 3.13 without a GPU.

``PYTHONPATH=scripts python -m tests.ptx.layers [--save]``.

A small graph with the ratios of bgs is run on the machine, forward and with gradients, with compact rows and without.
Of each launch its log has the instructions of all threads, and the sectors of global memory that warps touch.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.tables import report_part, table
from benchmarks.graphs.layers import arguments, layer
from benchmarks.graphs.rewritten import WAYS
from benchmarks.graphs.shapes import Shape, whole_graph
from tests.ptx import running

SHAPE, WIDTH = Shape("like bgs", 95, 673, 4, 3), 32
RULES = """\
RGAT on a graph of 95 nodes, 673 edges and 4 types, a thousandth of bgs, 32 wide, executed by the machine for PTX from
what nvcc emits for sm_80: for each kernel the instructions of all threads, and the sectors of 32 bytes of global memory
that its warps read and write, the k-th access of a warp's lanes at an instruction at once, without caches. "a sector"
is how many instructions there are for each. The thesis's figure is a picture of durations and rates; its text says that
traversals wait for memory, and that backwards memory is used twice as much."""


def run(way: str, gradients: bool) -> None:
    """Call the layer in a process that has the machine."""
    graph = whole_graph(SHAPE)
    made = layer("rgat", WIDTH, **WAYS[way]).on(graph, device="gpu")
    given = arguments("rgat", graph, WIDTH)
    wanted = layer("rgat", WIDTH, **WAYS[way]).on(graph, threads=1)
    out = wanted(**given)
    if not gradients:
        np.testing.assert_allclose(made(**given), out, rtol=1e-4, atol=1e-4)
        return
    found = made.gradients(out, **given)
    for name, each in wanted.gradients(out, **given).items():
        np.testing.assert_allclose(found[name], each, rtol=1e-3, atol=1e-3)


def launches(way: str, gradients: bool) -> list[tuple[str, int, int, int]]:
    """The kernel of each launch, its instructions, and its sectors read and written."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        options = f"seed=1 steps=2000000000 log={log}"
        told = running.run(
            ["-m", "tests.ptx.layers", "--way", way, *["--gradients"] * gradients], options, timeout=1500
        )
        if told.returncode:
            raise SystemExit(told.stdout + told.stderr)
        found = []
        for line in log.read_text().splitlines():
            name, _, rest = line.partition(" grid ")
            words = rest.split()
            found.append((name, *(int(words[words.index(word) + k]) for word, k in PLACES)))
        return found  # type: ignore[return-value]


#: Words of a line of the log, and which number after them.
PLACES = (("instructions", 1), ("sectors", 1), ("sectors", 2))


def rows(ways: Sequence[str]) -> Iterator[list[str]]:
    """A row for each kernel."""
    for way in ways:
        for gradients in (False, True):
            for name, instructions, read, written in launches(way, gradients):
                what = "step" if gradients else "result"
                numbers = [str(instructions), str(read), str(written), f"{instructions / max(read + written, 1):.1f}"]
                yield [way, what, name, *numbers]


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(prog="python -m tests.ptx.layers", description=RULES.split(":", maxsplit=1)[0])
    parser.add_argument("--way", default="")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    if asked.way:
        return run(asked.way, asked.gradients)
    heads = ["rewrites", "program", "kernel", "instructions", "read", "written", "a sector"]
    text = f"{RULES}\n\n{table(heads, list(rows(['none', 'compact'])))}"
    heading = "Figure 3.13: instructions and sectors of kernels"
    return report_part(
        "graphs", "Graphs", heading, text, asked.save, "PYTHONPATH=scripts python -m tests.ptx.layers --save"
    )


if __name__ == "__main__":
    main()
