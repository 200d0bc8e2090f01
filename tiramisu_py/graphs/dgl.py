"""Convolutions of DGL as one operator each: which calls are replaced, and by what.

As for those of PyG (`pyg`): a class here stands for one of DGL's, by the name of its module and itself, and takes the
arguments of its `forward` in DGL 2.1. Degrees, dense products, dropout and what follows are PyTorch's, as there.
"""

from __future__ import annotations

from typing import Any

from tiramisu_py.graphs.pyg import MessageOperator, ReplacedConvolution, other_types, plain_features


def _plain(conv: Any, graph: Any, feat: Any, *of_edges: Any) -> str:
    """Why a call stays for its graph, its features, or its values of edges."""
    if getattr(graph, "is_block", False) or not getattr(graph, "is_homogeneous", False):
        return "its graph is a block, or has several kinds of nodes"
    reason = plain_features(conv, feat)
    if reason or str(graph.device) != "cpu":
        return reason or "its tensors are on a device"
    if len(feat) != graph.num_nodes():
        return "its features are not one row for each node"
    given = [each for each in of_edges if each is not None]
    if any(each.shape[:1] != (graph.num_edges(),) or each.numel() != graph.num_edges() for each in given):
        return "its values of edges are not a number for each"
    return next(filter(None, (other_types(feat, each) for each in given)), "")


def _ends(graph: Any) -> dict[str, Any]:
    """Where messages come from, and where they go to, edge by edge in the order of their numbers."""
    src, dst = graph.edges()
    return {"src": src.long(), "dst": dst.long()}


def _are_types(given: Any) -> bool:
    """Whether types are a row of integers, which DGL takes as indices."""
    return getattr(given, "dim", lambda: 0)() == 1 and not (given.is_floating_point() or given.is_complex())


def _lacks_edges(conv: Any, graph: Any) -> str:
    """DGL refuses nodes without incoming edges, unless it is told to allow them."""
    lacking = not conv._allow_zero_in_degree and bool((graph.in_degrees() == 0).any())
    return "a node has no edge that comes in" if lacking else ""


class SumOfRelations:
    """`RelGraphConv`."""

    @staticmethod
    def stays(conv: Any, g: Any, feat: Any, etypes: Any, norm: Any = None, *, presorted: bool = False) -> str:
        """Types of edges in a list stay."""
        del presorted
        if not _are_types(etypes):
            return "its types of edges are no tensor of integers"
        if norm is not None and norm.dim() != 2:
            return "norm= is no column"
        return _plain(conv, g, feat, norm)

    @staticmethod
    def called(
        conv: Any,
        run: MessageOperator,
        g: Any,
        feat: Any,
        etypes: Any,
        norm: Any = None,
        *,
        presorted: bool = False,
    ) -> Any:
        """Products by types and their sum by the operator, then what DGL has behind them."""
        del presorted
        typed, rows = conv.linear_r, feat
        weight = typed.get_weight()
        if typed.regularizer == "bdd":
            weight = weight.view(typed.num_types, typed.num_bases, typed.submat_in, typed.submat_out)
            rows = feat.view(-1, typed.num_bases, typed.submat_in)
        ends, edge = {**_ends(g), "etype": etypes.long()}, {} if norm is None else {"norm": norm.reshape(-1)}
        preparation = "sum" if norm is None else "as given"
        out = run("relational_sum", preparation, ends, node={"x": rows}, edge=edge, weights={"W": ("etype", weight)})
        out = out.reshape(len(feat), -1)
        if conv.layer_norm:
            out = conv.layer_norm_weight(out)
        if conv.bias:
            out = out + conv.h_bias
        if conv.self_loop:
            out = out + feat @ conv.loop_weight
        return conv.dropout(conv.activation(out) if conv.activation else out)


class SumByDegrees:
    """`GraphConv`."""

    @staticmethod
    def stays(conv: Any, graph: Any, feat: Any, weight: Any = None, edge_weight: Any = None) -> str:
        """Weights that are given with the call, beside those of the module, stay."""
        if weight is not None and conv.weight is not None:
            return "weight= is given, and it has its own"
        return _plain(conv, graph, feat, edge_weight) or _lacks_edges(conv, graph)

    @staticmethod
    def called(
        conv: Any, run: MessageOperator, graph: Any, feat: Any, weight: Any = None, edge_weight: Any = None
    ) -> Any:
        """The sum by the operator, between the factors of degrees and the product with weights."""
        weight, power = conv.weight if weight is None else weight, -0.5 if conv._norm == "both" else -1.0
        rows = feat
        if conv._norm in ("left", "both"):
            rows = rows * graph.out_degrees().to(feat).clamp(min=1).pow(power).unsqueeze(-1)
        first = weight is not None and conv._in_feats > conv._out_feats
        rows = rows @ weight if first else rows
        edge = {} if edge_weight is None else {"norm": edge_weight.reshape(-1)}
        preparation = "sum" if edge_weight is None else "as given"
        out = run("weighted_sum", preparation, _ends(graph), node={"x": rows}, edge=edge)
        out = out if first or weight is None else out @ weight
        if conv._norm in ("right", "both"):
            out = out * graph.in_degrees().to(feat).clamp(min=1).pow(power).unsqueeze(-1)
        out = out if conv.bias is None else out + conv.bias
        return out if conv._activation is None else conv._activation(out)


class MeanOfNeighbours:
    """`SAGEConv`."""

    @staticmethod
    def stays(conv: Any, graph: Any, feat: Any, edge_weight: Any = None) -> str:
        """Largest values and recurrent networks of neighbours stay."""
        if conv._aggre_type not in ("mean", "gcn"):
            return f"aggregator_type={conv._aggre_type!r}"
        return _plain(conv, graph, feat, edge_weight)

    @staticmethod
    def called(conv: Any, run: MessageOperator, graph: Any, feat: Any, edge_weight: Any = None) -> Any:
        """The sum or mean of neighbours by the operator; weights of edges are in the sum, not in its count."""
        feat = conv.feat_drop(feat)
        first = conv._in_src_feats > conv._out_feats
        rows = conv.fc_neigh(feat) if first else feat
        mean, edge = conv._aggre_type == "mean", {} if edge_weight is None else {"norm": edge_weight.reshape(-1)}
        preparation = "as given" if edge else "mean" if mean else "sum"
        out = run("weighted_sum", preparation, _ends(graph), node={"x": rows}, edge=edge)
        degrees = graph.in_degrees().to(feat).unsqueeze(-1)
        if mean and edge:
            out = out / degrees.clamp(min=1)
        elif not mean:
            out = (out + rows) / (degrees + 1)
        out = out if first else conv.fc_neigh(out)
        if mean:
            out = conv.fc_self(feat) + out
        elif conv.bias is not None:
            out = out + conv.bias
        out = out if conv.activation is None else conv.activation(out)
        return out if conv.norm is None else conv.norm(out)


class HeadsOfAttention:
    """`GATConv`."""

    @staticmethod
    def stays(conv: Any, graph: Any, feat: Any, edge_weight: Any = None, get_attention: bool = False) -> str:
        """Weights of edges, dropped scores, two sets of nodes, and wishes for the scores stay."""
        if edge_weight is not None or get_attention:
            return "edge_weight= or get_attention= is given"
        if conv.attn_drop.p > 0 and conv.training:
            return "scores are dropped while it is trained"
        if not hasattr(conv, "fc"):
            return "it is of two sets of nodes"
        return _plain(conv, graph, feat) or _lacks_edges(conv, graph)

    @staticmethod
    def called(
        conv: Any,
        run: MessageOperator,
        graph: Any,
        feat: Any,
        edge_weight: Any = None,
        get_attention: bool = False,
    ) -> Any:
        """Scores of nodes first, then attention by the operator."""
        del edge_weight, get_attention
        feat = conv.feat_drop(feat)
        rows = conv.fc(feat).view(-1, conv._num_heads, conv._out_feats)
        node = {"h": rows, "s": (rows * conv.attn_l).sum(-1), "t": (rows * conv.attn_r).sum(-1)}
        slope = float(conv.leaky_relu.negative_slope)
        out = run("attention", "as given", _ends(graph), node=node, slope=slope)
        if conv.res_fc is not None:
            out = out + conv.res_fc(feat).view(len(feat), -1, conv._out_feats)
        if conv.bias is not None:
            out = out + conv.bias.view(1, conv._num_heads, conv._out_feats)
        return conv.activation(out) if conv.activation else out


class TypedAttention:
    """`HGTConv`."""

    @staticmethod
    def stays(conv: Any, g: Any, x: Any, ntype: Any, etype: Any, *, presorted: bool = False) -> str:
        """Types that are no tensors stay."""
        del presorted
        if not (_are_types(ntype) and _are_types(etype)):
            return "its types are no tensors of integers"
        return _plain(conv, g, x)

    @staticmethod
    def called(
        conv: Any, run: MessageOperator, g: Any, x: Any, ntype: Any, etype: Any, *, presorted: bool = False
    ) -> Any:
        """Keys, queries and values of each type of nodes first, then attention by the operator, then the rest."""
        import torch  # noqa: PLC0415 - PyTorch is needed by those alone who call this

        heads = (-1, conv.num_heads, conv.head_size)
        node = {
            "key": conv.linear_k(x, ntype, presorted).view(heads),
            "query": conv.linear_q(x, ntype, presorted).view(heads),
            "value": conv.linear_v(x, ntype, presorted).view(heads),
        }
        weights = {
            "W_att": ("etype", torch.stack([each.get_weight() for each in conv.relation_att], 1)),
            "W_msg": ("etype", torch.stack([each.get_weight() for each in conv.relation_msg], 1)),
            "factor": ("etype", torch.stack(list(conv.relation_pri), 1) / conv.sqrt_d),
        }
        ends = {**_ends(g), "etype": etype.long()}
        out = run("transformer", "as given", ends, node=node, weights=weights).reshape(len(x), -1)
        out = conv.drop(conv.linear_a(out, ntype, presorted))
        share = conv.skip[ntype].sigmoid().unsqueeze(-1)
        own = x if x.shape == out.shape else x @ conv.residual_w
        out = out * share + own * (1 - share)
        return conv.norm(out) if conv.use_norm else out


#: What replaces the convolutions of DGL, by module and class.
OF_DGL: dict[tuple[str, str], type[ReplacedConvolution]] = {
    (f"dgl.nn.pytorch.conv.{name.lower()}", name): each
    for name, each in (
        ("RelGraphConv", SumOfRelations),
        ("GraphConv", SumByDegrees),
        ("SAGEConv", MeanOfNeighbours),
        ("GATConv", HeadsOfAttention),
        ("HGTConv", TypedAttention),
    )
}
