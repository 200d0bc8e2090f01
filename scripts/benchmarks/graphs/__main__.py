"""Layers of graph networks, and their products and sums, beside others, and as Hector's thesis shows them.

scripts/bench graphs [--tables layers,...] [--threads 1,2] [--only aifb,...] [--models rgcn,...]
                    [--convolutions GCNConv,...] [--dgl PYTHON] [--files FOLDER] [--seconds S] [--rounds N] [--save]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.common.tables import report_part, versions
from benchmarks.graphs.convolution_models import WEIGHTS as OF_DGL
from benchmarks.graphs.convolutions import (
    CONVOLUTIONS,
    RULES_OF_CONVOLUTIONS,
    has_pyg,
    measured_convolution,
    names_of,
    table_of_convolutions,
)
from benchmarks.graphs.files import graphs_of
from benchmarks.graphs.layer_tables import RULES_OF_DGL, RULES_OF_HECTOR, RULES_OF_LAYERS, beside_hector, of_layers
from benchmarks.graphs.layers import ALL_WEIGHTS, MOST_STEPPED, WEIGHTS, has_torch, measured_layer
from benchmarks.graphs.memory import RULES_OF_LARGEST, RULES_OF_MEMORY, table_of_largest, table_of_memory
from benchmarks.graphs.products import RULES_OF_PRODUCTS, measured_products, table_of_products
from benchmarks.graphs.rewritten import (
    RULES_OF_PARTS,
    RULES_OF_REWRITES,
    RULES_OF_WIDTHS,
    WAYS,
    measured_parts,
    measured_rewrites,
    measured_widths,
    table_of_parts,
    table_of_rewrites,
    table_of_widths,
)
from benchmarks.graphs.runs import RULES_OF_RUNS, measured_runs, table_of_runs
from benchmarks.graphs.shapes import ALL_SHAPES, SHAPES, Shape, whole_graph
from benchmarks.graphs.sums import RULES_OF_SUMS, measured_sums, table_of_sums
from benchmarks.graphs.turns import CLOCKS, RULES_OF_THREADS, Turns
from tiramisu_py import graphs

#: Layers that both rewrites serve.
REWRITTEN = ("rgat", "hgt")


class Tables:
    """The tables of one number of threads, each a text, as they are asked for."""

    def __init__(self, asked: argparse.Namespace, threads: int) -> None:
        self.asked, self.threads = asked, threads

    @property
    def shapes(self) -> list[Shape]:
        """The graphs that are asked for, of those that a small machine holds."""
        return self._of(SHAPES)

    def _of(self, shapes: Sequence[Shape]) -> list[Shape]:
        return [shape for shape in shapes if not self.asked.only or shape.name in self.asked.only.split(",")]

    def _models(self, among: Sequence[str]) -> list[str]:
        given = [each for each in self.asked.models.split(",") if each]
        return [each for each in among if not given or each in given]

    def _cases(self, models: Sequence[str]) -> Iterator[tuple[str, str, graphs.Graph]]:
        """Models on graphs, also on those of files."""
        for shape in self.shapes:
            graph = whole_graph(shape)
            yield from ((model, shape.name, graph) for model in self._models(models))
        if self.asked.files:
            for name, graph in graphs_of(self.asked.files).items():
                if not self.asked.only or name in self.asked.only.split(","):
                    yield from ((model, name, graph) for model in self._models(models))

    @property
    def _turns(self) -> Turns:
        return Turns(self.asked.rounds, self.asked.seconds, self.asked.clock)

    def products(self) -> str:
        """Typed products."""
        return table_of_products(
            [(shape, measured_products(shape, self.threads, self._turns)) for shape in self.shapes]
        )

    def layers(self) -> str:
        """Layers beside PyTorch, and the thesis's table of ratios."""
        cases = sorted(self._cases([*WEIGHTS]), key=lambda case: [*WEIGHTS].index(case[0]))
        found = [measured_layer(*case, self.threads, self._turns) for case in cases]
        parts = [of_layers(found)]
        return "\n\n".join([*parts, RULES_OF_HECTOR, beside_hector(found)] if has_torch() else parts)

    def dgl(self) -> str:
        """Layers beside DGL."""
        cases = self._cases([*ALL_WEIGHTS])
        found = [measured_layer(*case, self.threads, self._turns, self.asked.dgl, self.asked.stepped) for case in cases]
        examples, own = ([each for each in found if (each.model in OF_DGL) == is_own] for is_own in (False, True))
        return "\n\n".join(of_layers(each) for each in (examples, own) if each)

    def sums(self) -> str:
        """Sums by edges and by nodes."""
        return table_of_sums(measured_sums(self.threads, self._turns))

    def runs(self) -> str:
        """Typed products by index and by runs."""
        return table_of_runs(measured_runs(self.threads, self._turns))

    def convolutions(self) -> str:
        """Convolutions of PyG."""
        if not (has_torch() and has_pyg()):
            return "PyTorch Geometric is not installed."
        wanted = self.asked.convolutions.split(",") if self.asked.convolutions else [*CONVOLUTIONS]
        cases = [(name, shape) for shape in self.shapes for name in names_of(shape) if name in wanted]
        return table_of_convolutions([measured_convolution(*case, self.threads, self._turns.least) for case in cases])

    def rewrites(self) -> str:
        """Table 3.5."""
        return table_of_rewrites(
            [measured_rewrites(*case, self.threads, self._turns) for case in self._cases(REWRITTEN)]
        )

    def parts(self) -> str:
        """Figures 3.3 and 3.11."""
        cases = [(case, way) for case in self._cases([*WEIGHTS]) for way in (WAYS if case[0] == "rgat" else ("both",))]
        return table_of_parts([measured_parts(*case, way, self.threads, self._turns) for case, way in cases])

    def widths(self) -> str:
        """Figure 3.12."""
        return table_of_widths([measured_widths(*case, self.threads, self._turns) for case in self._cases([*WEIGHTS])])

    def memory(self) -> str:
        """Figure 3.10."""
        return table_of_memory(self._of(ALL_SHAPES))

    def largest(self) -> str:
        """The graphs of table 3.3 in memory."""
        return table_of_largest(self._models([*WEIGHTS]), self._of(ALL_SHAPES))


#: Headings and rules of the tables, by name; those that are counted have no number of threads.
TABLES: dict[str, tuple[Callable[[Tables], str], str, str]] = {
    "products": (Tables.products, "Products", RULES_OF_PRODUCTS),
    "layers": (Tables.layers, "Layers", RULES_OF_LAYERS),
    "sums": (Tables.sums, "Sums by edges and by nodes", RULES_OF_SUMS),
    "runs": (Tables.runs, "Products by index and by runs", RULES_OF_RUNS),
    "convolutions": (Tables.convolutions, "Convolutions of PyG", RULES_OF_CONVOLUTIONS),
    "dgl": (Tables.dgl, "Layers beside DGL", RULES_OF_DGL),
    "rewrites": (Tables.rewrites, "Table 3.5: times without any rewrite / with", RULES_OF_REWRITES),
    "parts": (Tables.parts, "Figures 3.3 and 3.11: parts of the time", RULES_OF_PARTS),
    "widths": (Tables.widths, "Figure 3.12: widths", RULES_OF_WIDTHS),
    "memory": (Tables.memory, "Figure 3.10: memory", RULES_OF_MEMORY),
    "largest": (Tables.largest, "All eight graphs of table 3.3", RULES_OF_LARGEST),
}
COUNTED = ("memory", "largest")
#: What one call without any other word measures.
USUAL = "products,layers,convolutions,rewrites,parts,widths"


def main() -> None:
    """Measure, print, and keep the parts of the page."""
    parser = argparse.ArgumentParser(prog="scripts/bench graphs", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", default=USUAL, help=f"among {', '.join(TABLES)}")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--only", default="", help="names of graphs")
    parser.add_argument("--models", default="", help="names of layers")
    parser.add_argument("--convolutions", default="")
    parser.add_argument("--dgl", default="", help="a Python that has DGL, for the table dgl")
    parser.add_argument(
        "--stepped", type=int, default=MOST_STEPPED, help="edges, at most, with which DGL's steps of types are measured"
    )
    parser.add_argument("--files", type=Path, help="a folder with graphs of pykeen and WordNet: layers on these, too")
    parser.add_argument("--seconds", type=float, default=4.0, help="the longest time of all turns of a layer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clock", choices=[*CLOCKS], default="wall", help="thread: where others run beside one thread")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    names = asked.tables.split(",")
    wrong = [name for name in names if name not in TABLES]
    if asked.clock == "thread" and asked.threads != "1":
        parser.error("--clock thread is for --threads 1: it is the time of one thread")
    if wrong or ("dgl" in names and not asked.dgl):
        parser.error(f"no table {wrong[0]}" if wrong else "the table dgl is measured with a Python: --dgl PYTHON")
    for threads in map(int, asked.threads.split(",")):
        os.environ["OMP_NUM_THREADS"] = str(threads)
        for name in names:
            made, heading, rules = TABLES[name]
            number = "" if name in COUNTED else f", {threads} thread{'s' if threads > 1 else ''}"
            about = [RULES_OF_THREADS] if asked.clock == "thread" and name not in COUNTED else []
            text = "\n\n".join(
                [versions(["numpy", "torch", "torch_geometric"]), rules, *about, made(Tables(asked, threads))]
            )
            own = f": {asked.models.replace(',', ', ')}" if asked.models else ""
            report_part("graphs", "Graphs", f"{heading}{number}{own}", text, asked.save, _command(asked, name, threads))


def _command(asked: argparse.Namespace, name: str, threads: int) -> str:
    """The command that makes one table."""
    words = [f"--tables {name}", *([] if name in COUNTED else [f"--threads {threads}"])]
    words += [f"--{word} {given}" for word in ("only", "models", "convolutions") if (given := getattr(asked, word))]
    words += ["--clock thread"] if asked.clock == "thread" and name not in COUNTED else []
    words += [f"--{word} {word.upper()}" for word in ("dgl", "files") if getattr(asked, word)]
    return f"scripts/bench graphs {' '.join(words)} --save"


if __name__ == "__main__":
    main()
