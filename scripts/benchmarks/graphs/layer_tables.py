"""Tables of layers beside others: times, ratios to the best of the others, and Hector's table 3.4."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.common.tables import milliseconds, table
from benchmarks.graphs.layers import LayerTimes

OURS = "tiramisu_py"
RULES_OF_LAYERS = """\
Layers of `examples/graphs/models.py`, 64 wide, one head, float32: the result, and the result with its gradients by all
that the layer is given ("step"). The peer is what a careful user writes in PyTorch, eager: edges and nodes sorted by
type once, rows of a type times its matrix, type by type (`split`, `unbind`, `cat`), `index_add`, and autograd. It is
measured with `grouped_mm` in place of the loop, too, but for its gradients, which take longer than the loop's in
float32. Ratios are to the best of these. `torch.compile` is not among them: it refuses `grouped_mm` in float32, and
unrolls the loop. Pairs are those of a source and a type of edges, as a part of the edges; fb15k has the printed ratio.
Results and gradients are compared."""
RULES_OF_DGL = """\
DGL 2.1 runs with PyTorch 2.2 at most, so that it is asked in a process of its own, in turns with the others. `rgcn` is
its `RelGraphConv` with sorted types, the same sums as ours; it has no `RGAT` and no `HGT` as `hgt` is, which are its
`segment_mm`, `edge_softmax` and sparse sums for these. `GraphConv` (with weights of edges), `SAGEConv` (means),
`GATConv` (4 heads of 16) and `HGTConv` (one head, with gates) are its own modules, and the same sums written over edges
and nodes. Results are compared, and gradients where they are measured. UMLS, Kinships and WordNet are real graphs, if
they are there: all three parts of pykeen's files, and all pointers between WordNet's sets of synonyms."""
#: The thesis's table 3.4, best optimized: worst, mean and best of inference, and of training.
HECTOR = {
    "rgcn": ("1.51 / 1.91 / 3.20", "2.02 / 2.76 / 3.48"),
    "rgat": ("5.29 / 8.56 / 15.5", "4.61 / 11.3 / 55.4"),
    "hgt": ("1.40 / 2.87 / 7.42", "2.17 / 8.02 / 43.1"),
}
RULES_OF_HECTOR = """\
Table 3.4 of Hector's thesis, its ratios to the best of DGL, PyG, Seastar, Graphiler and HGL on eight graphs on an RTX
3090, best optimized, beside ours on these graphs on cores, to the best of the others above: worst, geometric mean and
best."""


def of_layers(found: Sequence[LayerTimes]) -> str:
    """The table of layers."""
    return table(heads_of_layers(found), list(rows_of_layers(found)))


def beside_hector(found: Sequence[LayerTimes]) -> str:
    """A row for each layer: the worst, mean and best of the ratios."""
    rows = []
    for model, (inference, training) in HECTOR.items():
        own = [each for each in found if each.model == model]
        sides = [[_best(side) / side[OURS] for side in sides if len(side) > 1]
                 for sides in ([each.forward for each in own], [each.step for each in own])]  # fmt: skip
        words = [
            f"{min(side):.2f} / {statistics.geometric_mean(side):.2f} / {max(side):.2f}" if side else ""
            for side in sides
        ]
        rows.append([model, inference, words[0], training, words[1]])
    heads = ["layer", "Hector, inference", "ours, inference", "Hector, training", "ours, training"]
    return table(heads, rows)


def rows_of_layers(found: Sequence[LayerTimes]) -> Iterator[list[str]]:
    """A row for each model and graph, and the geometric means of the ratios to the best of the others."""
    sides = [list(found[0].forward), _names_of_steps(found)]
    ratios: list[list[float]] = [[], []]
    for each in found:
        row = [each.model, each.graph, f"{each.ratio:.2f}"]
        of_row = [_best(side) / side[OURS] if len(side) > 1 else 0.0 for side in (each.forward, each.step)]
        for side, names in zip((each.forward, each.step), sides, strict=True):
            row += [milliseconds(side[name]) if name in side else "" for name in names]
        yield [*row, *(f"{ratio:.2f}" if ratio else "" for ratio in of_row)][: len(heads_of_layers(found))]
        for kept, ratio in zip(ratios, of_row, strict=True):
            kept.extend([ratio] if ratio else [])
    means = [f"{statistics.geometric_mean(side):.2f}" if side else "" for side in ratios]
    if any(means):
        yield ["geometric mean", "", "", *("" for names in sides for _ in names), *means]


def _names_of_steps(found: Sequence[LayerTimes]) -> list[str]:
    return max((list(each.step) for each in found), key=len)


def heads_of_layers(found: Sequence[LayerTimes]) -> list[str]:
    heads = ["layer", "graph", "pairs", *found[0].forward, *(f"{name}, step" for name in _names_of_steps(found))]
    return [*heads, "ratio", "of steps"] if len(found[0].forward) > 1 else heads


def _best(times: Mapping[str, float]) -> float:
    return min(time for name, time in times.items() if name != OURS)
