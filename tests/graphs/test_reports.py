"""Reports of layers: the bytes that are said beside those that compiled code asks for, forwards and backwards."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.graphs.models import MODELS, F
from tests.graphs.test_models import GRAPHS, graph_of
from tiramisu_py import graphs
from tiramisu_py.graphs.given import LayerArguments
from tiramisu_py.graphs.programs import LayerProgram

#: Counts what is allocated in the code that follows it.
COUNTED = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
size_t now, most;
static void *counted(size_t alignment, size_t size) {
  char *const memory = aligned_alloc(alignment, size + 64);
  *(size_t *)memory = size;
  now += size;
  if (now > most) most = now;
  return memory + 64;
}
static void freed(void *memory) {
  if (memory == NULL) return;
  now -= *(size_t *)((char *)memory - 64);
  free((char *)memory - 64);
}
#define aligned_alloc counted
#define free freed
"""


def asked_for(program: LayerProgram, given: dict[str, Any], folder: Path) -> tuple[int, int]:
    """The bytes that are left after a call, and the most that it has had at a time, as its C code says."""
    algorithm, name = program.f.algorithm, program.f.name
    for file, text in program.f.source().items():
        (folder / file).write_text(text)
    (folder / "counted.c").write_text(f'{COUNTED}\n#include "{name}.c"\n')
    flags = ["-std=gnu11", "-O0", "-shared", "-fPIC", "-w"]
    subprocess.run(["gcc", *flags, "counted.c", "-o", "counted.so", "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "counted.so"))
    found = program({each: given[each] for each in algorithm.inputs if each in given})
    arrays = {**program.arrays, **given}
    passed = [ctypes.c_int64(program.sizes[size]) for size in algorithm.params]
    passed += [arrays[each].ctypes.data_as(ctypes.c_void_p) for each in algorithm.inputs]
    results = [np.empty_like(each) for each in found]
    assert library[name](*passed, *(each.ctypes.data_as(ctypes.c_void_p) for each in results)) == 0
    for one, other in zip(results, found, strict=True):
        np.testing.assert_array_equal(one, other)
    return tuple(ctypes.c_size_t.in_dll(library, each).value for each in ("now", "most"))  # type: ignore[return-value]


def test_a_call_asks_for_the_bytes_that_are_reported(tmp_path: Path) -> None:
    width = 8
    made = graphs.layer(
        MODELS["gcn"].model, node={"feature": F}, edge={"norm": ()}, weights={"W": (F, width)}, dtype=tm.float64
    )
    run = made.on(graph_of(GRAPHS["a hub"]), threads=1)
    draw = np.random.default_rng(0)
    shapes = {"feature": (run.graph.nodes, F), "norm": (run.graph.edges,), "W": (F, width)}
    own = LayerArguments(made.name, made.trace, made.dtype, run.graph, run.graph.order, run.graph.nodes)
    given = own.of_model({name: draw.standard_normal(shape) for name, shape in shapes.items()})
    forward, backward = run.report().split("gradients:\n")
    ones = np.ones((run.graph.nodes, *made.trace.outputs[0].shape))
    for program, more, said in (
        (run.forward, {}, forward),
        (run.step, dict.fromkeys(run.step.cotangents.values(), ones), backward),
    ):
        folder = tmp_path / program.f.name
        folder.mkdir()
        left, most = asked_for(program, {**given, **more}, folder)
        assert left == 0 < most
        found = program.f.cost("memory", threads=1, **program.sizes)
        constant = ("_sums", "_by_columns")  # added by schedules: of constant size, and so on the stack
        values = program.f.algorithm.computations  # in whole lines of 64 bytes
        held = [
            [each for each in now.held if each.arrays[0] in values or not each.arrays[0].endswith(constant)]
            for now in found.moments
        ]
        assert most == max(sum(-(-each.bytes // 64) * 64 for each in now) for now in held), (most, said)
        assert f"temporaries: at most {found.peaks['memory']} bytes (" in said, said


def test_a_layer_without_temporaries_says_so() -> None:
    def doubled(g: Any) -> str:
        for e in g.edges():
            e["out"] = 2.0 * e.length
        return "out"

    run = graphs.layer(doubled, edge={"length": ()}).on(graphs.Graph([0], [0]))
    assert "  temporaries: none" in run.report().splitlines()
