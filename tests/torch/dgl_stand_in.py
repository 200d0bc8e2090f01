"""Stand-ins for DGL, which has no version for the PyTorch of today: a graph, and five convolutions.

They have the names, attributes and results of DGL 2.1's, written with gathers and `index_add` of PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")
Linear, Parameter = torch.nn.Linear, torch.nn.Parameter


@dataclass(eq=False)
class DGLGraph:
    """A graph with one kind of nodes."""

    src: Any
    dst: Any
    nodes: int
    is_block: bool = False
    is_homogeneous: bool = True
    device: str = "cpu"

    def edges(self) -> tuple[Any, Any]:
        return self.src, self.dst

    def num_nodes(self) -> int:
        return self.nodes

    def num_edges(self) -> int:
        return len(self.src)

    def in_degrees(self) -> Any:
        return torch.bincount(self.dst, minlength=self.nodes)

    def out_degrees(self) -> Any:
        return torch.bincount(self.src, minlength=self.nodes)

    def summed(self, messages: Any) -> Any:
        """The sum of messages that come in."""
        return messages.new_zeros(self.nodes, *messages.shape[1:]).index_add(0, self.dst, messages)


def softmax(g: DGLGraph, scores: Any) -> Any:
    """Of the edges that come in."""
    top = scores.new_full((g.nodes, scores.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, g.dst[:, None].expand_as(scores), scores, "amax")
    terms = (scores - top[g.dst].detach()).exp()
    return terms / g.summed(terms)[g.dst]


class TypedLinear(torch.nn.Module):
    """A product with the matrix of a type."""

    def __init__(self, ins: int, outs: int, types: int, regularizer: str | None = None, bases: int = 1) -> None:
        super().__init__()
        self.regularizer, self.num_bases, self.num_types = regularizer, bases, types
        self.submat_in, self.submat_out, self.outs = ins // bases, outs // bases, outs
        shape = {None: (types, ins, outs), "basis": (bases, ins, outs), "bdd": (types, ins * outs // bases)}
        self.W = Parameter(torch.randn(shape[regularizer]))
        self.coeff = Parameter(torch.randn(types, bases)) if regularizer == "basis" else None

    def get_weight(self) -> Any:
        return self.W if self.coeff is None else torch.einsum("tb,bio->tio", self.coeff, self.W)

    def forward(self, x: Any, types: Any, presorted: bool = False) -> Any:
        del presorted
        w = self.get_weight()[types]
        if self.regularizer != "bdd":
            return torch.einsum("ei,eio->eo", x, w)
        blocks = w.view(len(x), self.num_bases, self.submat_in, self.submat_out)
        parts = x.view(len(x), self.num_bases, self.submat_in)
        return torch.einsum("ebi,ebio->ebo", parts, blocks).flatten(1)


class RelGraphConv(torch.nn.Module):
    def __init__(self, ins: int, outs: int, types: int, regularizer: str | None = None, bases: int = 1,
                 bias: bool = True, self_loop: bool = True, layer_norm: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.linear_r = TypedLinear(ins, outs, types, regularizer, bases)
        self.bias, self.self_loop, self.layer_norm, self.activation = bias, self_loop, layer_norm, torch.tanh
        self.h_bias = Parameter(torch.randn(outs))
        self.loop_weight = Parameter(torch.randn(ins, outs))
        self.layer_norm_weight, self.dropout = torch.nn.LayerNorm(outs), torch.nn.Dropout(0.0)

    def forward(self, g: DGLGraph, feat: Any, etypes: Any, norm: Any = None, *, presorted: bool = False) -> Any:
        messages = self.linear_r(feat[g.src], etypes, presorted)
        out = g.summed(messages if norm is None else messages * norm)
        out = self.layer_norm_weight(out) if self.layer_norm else out
        out = out + self.h_bias if self.bias else out
        out = out + feat @ self.loop_weight if self.self_loop else out
        return self.dropout(self.activation(out))


class GraphConv(torch.nn.Module):
    def __init__(self, ins: int, outs: int, norm: str = "both", weight: bool = True, allow: bool = True) -> None:
        super().__init__()
        self._in_feats, self._out_feats, self._norm, self._allow_zero_in_degree = ins, outs, norm, allow
        self.weight = Parameter(torch.randn(ins, outs)) if weight else None
        self.bias, self._activation = Parameter(torch.randn(outs)) if weight else None, None

    def forward(self, g: DGLGraph, feat: Any, weight: Any = None, edge_weight: Any = None) -> Any:
        weight = self.weight if weight is None else weight
        powers = {"none": (0.0, 0.0), "both": (-0.5, -0.5), "left": (-1.0, 0.0), "right": (0.0, -1.0)}[self._norm]
        left, right = (d.to(feat).clamp(min=1)[:, None] ** p for d, p in zip((g.out_degrees(), g.in_degrees()), powers))  # noqa: B905
        messages = (feat * left)[g.src]
        out = g.summed(messages if edge_weight is None else messages * edge_weight.view(-1, 1))
        out = (out if weight is None else out @ weight) * right
        return out if self.bias is None else out + self.bias


class SAGEConv(torch.nn.Module):
    def __init__(self, ins: int, outs: int, aggregator: str) -> None:
        super().__init__()
        self._in_src_feats, self._out_feats, self._aggre_type = ins, outs, aggregator
        self.fc_neigh, self.feat_drop = Linear(ins, outs, bias=False), torch.nn.Dropout(0.0)
        self.activation, self.norm = torch.relu, None
        if aggregator == "gcn":
            self.bias = Parameter(torch.randn(outs))
        else:
            self.fc_self = Linear(ins, outs)

    def forward(self, g: DGLGraph, feat: Any, edge_weight: Any = None) -> Any:
        messages, degrees = feat[g.src], g.in_degrees().to(feat)[:, None]
        out = g.summed(messages if edge_weight is None else messages * edge_weight.view(-1, 1))
        if self._aggre_type == "gcn":
            return self.activation(self.fc_neigh((out + feat) / (degrees + 1)) + self.bias)
        return self.activation(self.fc_self(feat) + self.fc_neigh(out / degrees.clamp(min=1)))


class GATConv(torch.nn.Module):
    def __init__(self, ins: int, outs: int, heads: int, residual: bool = False, allow: bool = True) -> None:
        super().__init__()
        self._num_heads, self._out_feats, self._allow_zero_in_degree = heads, outs, allow
        self.fc, self.leaky_relu = Linear(ins, heads * outs, bias=False), torch.nn.LeakyReLU(0.2)
        self.attn_l, self.attn_r = (Parameter(torch.randn(1, heads, outs)) for _ in range(2))
        self.feat_drop, self.attn_drop = torch.nn.Dropout(0.0), torch.nn.Dropout(0.0)
        self.res_fc = Linear(ins, heads * outs) if residual else None
        self.bias, self.activation = None if residual else Parameter(torch.randn(heads * outs)), None

    def forward(self, g: DGLGraph, feat: Any, edge_weight: Any = None, get_attention: bool = False) -> Any:
        rows = self.fc(feat).view(-1, self._num_heads, self._out_feats)
        scores = (rows * self.attn_l).sum(-1)[g.src] + (rows * self.attn_r).sum(-1)[g.dst]
        shares = softmax(g, self.leaky_relu(scores))
        out = g.summed(rows[g.src] * shares[:, :, None])
        if self.res_fc is not None:
            out = out + self.res_fc(feat).view(len(feat), -1, self._out_feats)
        out = out if self.bias is None else out + self.bias.view(1, self._num_heads, self._out_feats)
        return (out, shares) if get_attention else out


class HGTConv(torch.nn.Module):
    def __init__(self, ins: int, width: int, heads: int, ntypes: int, etypes: int, use_norm: bool = False) -> None:
        super().__init__()
        self.num_heads, self.head_size, self.sqrt_d, self.use_norm = heads, width, width**0.5, use_norm
        outs = heads * width
        self.linear_k, self.linear_q, self.linear_v = (TypedLinear(ins, outs, ntypes) for _ in range(3))
        self.linear_a, self.drop = TypedLinear(outs, outs, ntypes), torch.nn.Dropout(0.0)
        self.relation_pri = torch.nn.ParameterList(Parameter(torch.randn(etypes)) for _ in range(heads))
        self.relation_att, self.relation_msg = (
            torch.nn.ModuleList(TypedLinear(width, width, etypes) for _ in range(heads)) for _ in range(2)
        )
        self.skip, self.norm = Parameter(torch.randn(ntypes)), torch.nn.LayerNorm(outs)
        self.residual_w = Parameter(torch.randn(ins, outs)) if ins != outs else None

    def forward(self, g: DGLGraph, x: Any, ntype: Any, etype: Any, *, presorted: bool = False) -> Any:
        k, q, v = (
            each(x, ntype, presorted).view(-1, self.num_heads, self.head_size).unbind(1)
            for each in (self.linear_k, self.linear_q, self.linear_v)
        )
        scores, messages = [], []
        for h in range(self.num_heads):
            keys = self.relation_att[h](k[h][g.src], etype)
            scores.append((keys * q[h][g.dst]).sum(-1) * self.relation_pri[h][etype] / self.sqrt_d)
            messages.append(self.relation_msg[h](v[h][g.src], etype))
        shares = softmax(g, torch.stack(scores, 1))
        out = g.summed(torch.stack(messages, 1) * shares[:, :, None]).reshape(len(x), -1)
        out, share = self.drop(self.linear_a(out, ntype)), self.skip[ntype].sigmoid()[:, None]
        out = out * share + (x if self.residual_w is None else x @ self.residual_w) * (1 - share)
        return self.norm(out) if self.use_norm else out


for _each in (RelGraphConv, GraphConv, SAGEConv, GATConv, HGTConv):
    _each.__module__ = f"dgl.nn.pytorch.conv.{_each.__name__.lower()}"
