"""The layers in DGL, in a process of its own Python: DGL has no version for the PyTorch of the others.

Run by `Beside` as ``PYTHON -I dgl_process.py FILE MODEL THREADS``: it answers each line of its input, ``forward`` or
``step``, with a line once that is done and the seconds of its thread, and keeps the values in a file that is named
after it. Edges and nodes are sorted by type; products of types are DGL's `segment_mm`, sums over edges its sparse
kernels. `rgcn` is its `RelGraphConv`; `GraphConv`, `SAGEConv`, `GATConv` and `HGTConv` are its modules of that name.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


class Beside:
    """A process that computes a layer on a graph in DGL, whenever it is asked to."""

    def __init__(self, python: str, model: str, arrays: Mapping[str, Any], threads: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        given = Path(self.folder.name) / "given.npz"
        np.savez(given, **arrays)
        command = [python, "-I", __file__, str(given), model, str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answered()

    def forward(self) -> float:
        """The result, without gradients; returns the seconds of the process's thread."""
        return self._ask("forward")

    def step(self) -> float:
        """The result and its gradients by all that the layer is given; returns the seconds of the process's thread."""
        return self._ask("step")

    def values(self, gradients: bool) -> dict[str, Any]:
        """The result as ``out``, and the gradients."""
        file = Path(self.folder.name) / "values.npz"
        self._ask(f"{'step' if gradients else 'forward'} {file}")
        with np.load(file) as found:
            return dict(found)

    def end(self) -> None:
        """End the process."""
        self.process.communicate()
        self.folder.cleanup()

    def _ask(self, line: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answered()

    def _answered(self) -> float:
        """The seconds that its thread says to have taken."""
        assert self.process.stdout is not None
        word, _, seconds = self.process.stdout.readline().partition(" ")
        if word != "done":
            raise RuntimeError(f"DGL ended, or said {word!r}")
        return float(seconds)


class Layers:
    """The layers of one graph."""

    def __init__(self, given: Mapping[str, Any], model: str) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.dgl: Any = importlib.import_module("dgl")
        self.modules: Any = importlib.import_module("dgl.nn.pytorch")
        integers = ("src", "dst", "etype", "ntype", "of_edges", "of_nodes", "weights")
        held = {name: self.torch.from_numpy(value) for name, value in given.items()}
        self.src, self.dst, self.etype, self.ntype = (held[name] for name in ("src", "dst", "etype", "ntype"))
        self.of_edges, self.of_nodes, self.weights = held["of_edges"], held["of_nodes"], held["weights"]
        self.given = {name: value for name, value in held.items() if name not in integers}
        self.graph = self.dgl.graph((self.src, self.dst), num_nodes=len(self.given["feature"])).formats(
            ["coo", "csc", "csr"]
        )
        self.graph.create_formats_()
        self.conv: Any = None
        self.weights_of: dict[str, OwnWeight] = {}
        if model in CONVOLUTIONS:
            self.conv, self.call, self.weights_of = CONVOLUTIONS[model](self)
            for name, own in self.weights_of.items():
                with self.torch.no_grad():
                    own.parameter.copy_(own.to_dgl(self.given[name]).view_as(own.parameter))
        self.layer = getattr(self, f"_{model}") if self.conv is None else self._convolved

    def forward(self) -> Any:
        """The result, without gradients."""
        with self.torch.no_grad():
            return self.layer(**self.given)

    def step(self) -> dict[str, Any]:
        """The result and the gradients."""
        given = {name: each.detach().requires_grad_(name != "norm") for name, each in self.given.items()}
        if self.conv is not None:
            self.conv.zero_grad()
        out = self.layer(**given)
        out.backward(self.weights.view_as(out))
        found = {name: each.grad for name, each in given.items() if each.grad is not None}
        found |= {name: own.to_ours(own.parameter.grad) for name, own in self.weights_of.items()}
        return {"out": out.detach(), **{name: each.reshape(self.given[name].shape) for name, each in found.items()}}

    def _convolved(self, feature: Any, **given: Any) -> Any:
        return self.call(feature, given.get("norm"))

    def _typed(self, rows: Any, weights: Any) -> Any:
        return self.dgl.ops.segment_mm(rows.index_select(0, self.src), weights, self.of_edges)

    def _attended(self, raw: Any, messages: Any) -> Any:
        att = self.dgl.nn.functional.edge_softmax(self.graph, raw[:, None])
        return self.dgl.ops.copy_e_sum(self.graph, att * messages)

    def _rgat(self, feature: Any, W: Any, w_s: Any, w_t: Any) -> Any:
        hs = self._typed(feature, W)
        at_dst = self.torch.einsum("rkd,rd->rk", W, w_t).index_select(0, self.etype)
        raw = (hs * w_s.index_select(0, self.etype)).sum(-1) + (feature.index_select(0, self.dst) * at_dst).sum(-1)
        return self._attended(self.torch.nn.functional.leaky_relu(raw, 0.01), hs)

    def _hgt(self, feature: Any, K: Any, Q: Any, V: Any, W_att: Any, W_msg: Any) -> Any:
        k, q, v = (self.dgl.ops.segment_mm(feature, each, self.of_nodes) for each in (K, Q, V))
        raw = self.dgl.ops.e_dot_v(self.graph, self._typed(k, W_att), q)
        return self._attended(raw[:, 0], self._typed(v, W_msg))


@dataclass(frozen=True)
class OwnWeight:
    """A parameter of a module of DGL, and how its layout is made of ours and back."""

    parameter: Any
    to_dgl: Callable[[Any], Any] = lambda given: given
    to_ours: Callable[[Any], Any] = lambda given: given


def _rel_graph_conv(own: Layers) -> tuple[Any, Any, dict[str, OwnWeight]]:
    W = own.given["W"]
    conv = own.modules.RelGraphConv(*W.shape[1:], W.shape[0], bias=False)
    weights = {"W": OwnWeight(conv.linear_r.W), "W_self": OwnWeight(conv.loop_weight)}
    return conv, lambda x, norm: conv(own.graph, x, own.etype, norm[:, None], presorted=True), weights


def _graph_conv(own: Layers) -> tuple[Any, Any, dict[str, OwnWeight]]:
    conv = own.modules.GraphConv(*own.given["W"].shape, norm="none", bias=False, allow_zero_in_degree=True)
    return conv, lambda x, norm: conv(own.graph, x, edge_weight=norm), {"W": OwnWeight(conv.weight)}


def _sage_conv(own: Layers) -> tuple[Any, Any, dict[str, OwnWeight]]:
    conv = own.modules.SAGEConv(*own.given["W"].shape, "mean", bias=False)
    linear = {"W": conv.fc_neigh.weight, "W_self": conv.fc_self.weight}
    weights = {name: OwnWeight(each, lambda w: w.T, lambda w: w.T) for name, each in linear.items()}
    return conv, lambda x, norm: conv(own.graph, x), weights


def _gat_conv(own: Layers) -> tuple[Any, Any, dict[str, OwnWeight]]:
    heads, inside, outside = own.given["W"].shape
    conv = own.modules.GATConv(inside, outside, heads, bias=False, allow_zero_in_degree=True)
    weights = {
        "W": OwnWeight(
            conv.fc.weight,
            lambda w: w.permute(0, 2, 1).reshape(heads * outside, inside),
            lambda w: w.view(heads, outside, inside).permute(0, 2, 1),
        ),
        "a_src": OwnWeight(conv.attn_l),
        "a_dst": OwnWeight(conv.attn_r),
    }
    return conv, lambda x, norm: conv(own.graph, x), weights


def _hgt_conv(own: Layers) -> tuple[Any, Any, dict[str, OwnWeight]]:
    (ntypes, inside, outside), etypes = own.given["K"].shape, len(own.given["pri"])
    conv = own.modules.HGTConv(inside, outside, 1, ntypes, etypes, dropout=0.0)
    typed = {"K": conv.linear_k, "Q": conv.linear_q, "V": conv.linear_v, "A": conv.linear_a}
    typed |= {"W_att": conv.relation_att[0], "W_msg": conv.relation_msg[0]}
    weights = {name: OwnWeight(each.W) for name, each in typed.items()}
    weights |= {"pri": OwnWeight(conv.relation_pri[0]), "skip": OwnWeight(conv.skip)}
    return conv, lambda x, norm: conv(own.graph, x, own.ntype, own.etype, presorted=True), weights


CONVOLUTIONS = {
    "rgcn": _rel_graph_conv,
    "GraphConv": _graph_conv,
    "SAGEConv": _sage_conv,
    "GATConv": _gat_conv,
    "HGTConv": _hgt_conv,
}


def main(file: str, model: str, threads: str) -> None:
    """Answer each line."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(int(threads))
    with np.load(file) as given:
        layers = Layers(dict(given), model)
    print("done 0", flush=True)
    for line in sys.stdin:
        what, _, rest = line.strip().partition(" ")
        began = time.thread_time()
        found = {"out": layers.forward()} if what == "forward" else layers.step()
        spent = time.thread_time() - began
        if rest:
            np.savez(rest, **{name: value.numpy() for name, value in found.items()})
        print(f"done {spent}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
