"""Convolutions of PyTorch Geometric as one operator each: which calls are replaced, and by what.

A class here stands for one of PyG's, by the name of its module and itself, so that PyG need not be there. `stays` says
why a call is left to PyG, and `called` is the call; both take the arguments of PyG's `forward`. Dense products over all
nodes, biases and what follows are PyTorch's, as in PyG 2.8; messages, attention and their sums are the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol


class MessageOperator(Protocol):
    """Calls the operator of a model of `message_models` on tensors by name."""

    def __call__(
        self,
        model: str,
        preparation: str,
        ends: Mapping[str, Any],
        *,
        node: Mapping[str, Any],
        edge: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any: ...


class ReplacedConvolution(Protocol):
    """How one class of convolutions is replaced."""

    @staticmethod
    def stays(conv: Any, *arguments: Any, **named: Any) -> str:
        """Why a call stays as it is; empty if it is replaced."""

    @staticmethod
    def called(conv: Any, run: MessageOperator, *arguments: Any, **named: Any) -> Any:
        """The result of the call."""


def plain_edges(conv: Any, x: Any, edge_index: Any) -> str:
    """Why a call stays for its features and edges."""
    import torch  # noqa: PLC0415 - PyTorch is needed by those alone who call this

    if type(edge_index) is not torch.Tensor or edge_index.dim() != 2 or edge_index.dtype != torch.int64:
        return "its edges are no tensor of [2, E] integers"
    if edge_index.device.type != "cpu":
        return "its tensors are on a device"
    if getattr(conv, "_explain", None) or getattr(conv, "_decomposed_layers", 1) > 1:
        return "it is explained, or decomposed"
    if any(getattr(conv, f"_{what}_forward_{when}hooks", None) for what in _HOOKED for when in ("", "pre_")):
        return "it has hooks in its messages"
    return plain_features(conv, x)


def plain_features(conv: Any, x: Any) -> str:
    """Why a call stays for its features."""
    import torch  # noqa: PLC0415 - PyTorch is needed by those alone who call this

    if not isinstance(x, torch.Tensor) or x.dim() != 2:
        return "its features are no matrix of all nodes"
    if x.dtype not in (torch.float32, torch.float64):
        return f"its features are {x.dtype}"
    if x.device.type != "cpu":
        return "its tensors are on a device"
    if any(each.dtype != x.dtype for each in conv.parameters()):
        return "its weights are of another type than its features"
    if torch.is_autocast_enabled("cpu"):
        return "torch.autocast chooses its types"
    return ""


_HOOKED = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")


def ends_of(conv: Any, edge_index: Any) -> dict[str, Any]:
    """Where messages come from, and where they go to."""
    there = conv.flow == "source_to_target"
    return {"src": edge_index[0 if there else 1], "dst": edge_index[1 if there else 0]}


class RelationalSum:
    """`RGCNConv` and `FastRGCNConv`."""

    @staticmethod
    def stays(conv: Any, x: Any, edge_index: Any, edge_type: Any = None) -> str:
        """Lookups by numbers of nodes, two sets of nodes, and largest values stay."""
        if conv.aggr not in ("mean", "add", "sum"):
            return f"aggr={conv.aggr!r}"
        return "it has no edge_type" if edge_type is None else plain_edges(conv, x, edge_index)

    @staticmethod
    def called(conv: Any, run: MessageOperator, x: Any, edge_index: Any, edge_type: Any = None) -> Any:
        """Products by types and their mean or sum by the operator, then the root's product."""
        weight, rows = conv.weight, x
        if conv.num_bases is not None:
            weight = (conv.comp @ weight.view(conv.num_bases, -1)).view(
                conv.num_relations, conv.in_channels_l, conv.out_channels
            )
        elif conv.num_blocks is not None:
            rows = x.view(-1, weight.size(1), weight.size(2))
        ends = {**ends_of(conv, edge_index), "etype": edge_type}
        preparation = "mean of types" if conv.aggr == "mean" else "sum"
        out = run("relational_sum", preparation, ends, node={"x": rows}, weights={"W": ("etype", weight)})
        out = out.reshape(-1, conv.out_channels)
        if conv.root is not None:
            out = out + x @ conv.root
        return out if conv.bias is None else out + conv.bias


class SymmetricSum:
    """`GCNConv`."""

    @staticmethod
    def stays(conv: Any, x: Any, edge_index: Any, edge_weight: Any = None) -> str:
        """Other sums than "add", and weights of edges of another type than the features, stay."""
        if conv.aggr not in ("add", "sum"):
            return f"aggr={conv.aggr!r}"
        cached = conv._cached_edge_index if conv.normalize else None
        weight = edge_weight if cached is None else cached[1]
        return plain_edges(conv, x, edge_index) or ("" if weight is None else other_types(x, weight))

    @staticmethod
    def called(conv: Any, run: MessageOperator, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        """Weights of edges that are given, or cached, are PyG's; others are made once for a graph."""
        if conv.normalize and (conv.cached or edge_weight is not None):
            edge_index, edge_weight = _normalised(conv, x, edge_index, edge_weight)
            preparation = "as given"
        elif edge_weight is not None:
            preparation = "as given"
        elif conv.normalize:
            preparation = "symmetric with loops" if conv.add_self_loops else "symmetric"
        else:
            preparation = "sum"
        edge = {} if edge_weight is None else {"norm": edge_weight.reshape(-1)}
        out = run("weighted_sum", preparation, ends_of(conv, edge_index), node={"x": conv.lin(x)}, edge=edge)
        return out if conv.bias is None else out + conv.bias


def other_types(x: Any, weight: Any) -> str:
    """Why a call stays for values of its edges."""
    if weight.dtype != x.dtype:
        return f"its edges' weights are {weight.dtype}"
    return "its tensors are on a device" if weight.device.type != "cpu" else ""


def _normalised(conv: Any, x: Any, edge_index: Any, edge_weight: Any) -> Any:
    """The edges and weights of `gcn_norm`, as `GCNConv.forward` keeps them."""
    if conv._cached_edge_index is not None:
        return conv._cached_edge_index
    norm = import_module(type(conv).__module__).gcn_norm
    found = norm(edge_index, edge_weight, x.size(0), conv.improved, conv.add_self_loops, conv.flow, x.dtype)
    if conv.cached:
        conv._cached_edge_index = found
    return found


class NeighbourMean:
    """`SAGEConv`."""

    @staticmethod
    def stays(conv: Any, x: Any, edge_index: Any, size: Any = None) -> str:
        """Two sets of nodes, and other aggregations than means and sums, stay."""
        if conv.aggr not in ("mean", "add", "sum"):
            return f"aggr={conv.aggr!r}"
        return "size= is given" if size is not None else plain_edges(conv, x, edge_index)

    @staticmethod
    def called(conv: Any, run: MessageOperator, x: Any, edge_index: Any, size: Any = None) -> Any:
        """The mean of neighbours by the operator, then the products."""
        rows = conv.lin(x).relu() if conv.project else x
        preparation = "mean" if conv.aggr == "mean" else "sum"
        out = conv.lin_l(run("weighted_sum", preparation, ends_of(conv, edge_index), node={"x": rows}))
        if conv.root_weight:
            out = out + conv.lin_r(x)
        if conv.normalize:
            out = import_module("torch").nn.functional.normalize(out, p=2.0, dim=-1)
        return out


class Attention:
    """`GATConv`."""

    @staticmethod
    def stays(
        conv: Any,
        x: Any,
        edge_index: Any,
        edge_attr: Any = None,
        size: Any = None,
        return_attention_weights: Any = None,
    ) -> str:
        """Attributes of edges, dropped scores, two sets of nodes, and wishes for the scores stay."""
        if edge_attr is not None:
            return "edges have attributes"
        if conv.dropout > 0 and conv.training:
            return "scores are dropped while it is trained"
        if size is not None or return_attention_weights is not None:
            return "size= or return_attention_weights= is given"
        if conv.aggr not in ("add", "sum") or getattr(conv, "lin", None) is None:
            return f"aggr={conv.aggr!r}, or it is of two sets of nodes"
        return plain_edges(conv, x, edge_index)

    @staticmethod
    def called(
        conv: Any,
        run: MessageOperator,
        x: Any,
        edge_index: Any,
        edge_attr: Any = None,
        size: Any = None,
        return_attention_weights: Any = None,
    ) -> Any:
        """Scores of nodes first, then attention by the operator."""
        rows = conv.lin(x).view(-1, conv.heads, conv.out_channels)
        node = {"h": rows, "s": (rows * conv.att_src).sum(-1), "t": (rows * conv.att_dst).sum(-1)}
        preparation = "loops" if conv.add_self_loops else "as given"
        out = run("attention", preparation, ends_of(conv, edge_index), node=node, slope=float(conv.negative_slope))
        out = out.reshape(-1, conv.heads * conv.out_channels) if conv.concat else out.mean(dim=1)
        if getattr(conv, "res", None) is not None:
            out = out + conv.res(x)
        return out if conv.bias is None else out + conv.bias


class RelationalAttention:
    """`RGATConv`."""

    @staticmethod
    def stays(
        conv: Any,
        x: Any,
        edge_index: Any,
        edge_type: Any = None,
        edge_attr: Any = None,
        size: Any = None,
        return_attention_weights: Any = None,
    ) -> str:
        """Blocks, modes of cardinality, attention within relations, and what `Attention` leaves, stay."""
        if edge_type is None or edge_attr is not None:
            return "it has no edge_type" if edge_type is None else "edges have attributes"
        if conv.mod is not None or conv.num_blocks is not None or conv.dim > 1:
            return "mod=, num_blocks= or dim= is given"
        if conv.attention_mechanism != "across-relation" or conv.aggr not in ("add", "sum"):
            return f"attention_mechanism={conv.attention_mechanism!r}, aggr={conv.aggr!r}"
        if conv.dropout > 0 and conv.training:
            return "scores are dropped while it is trained"
        if size is not None or return_attention_weights is not None:
            return "size= or return_attention_weights= is given"
        return plain_edges(conv, x, edge_index)

    @staticmethod
    def called(
        conv: Any,
        run: MessageOperator,
        x: Any,
        edge_index: Any,
        edge_type: Any = None,
        edge_attr: Any = None,
        size: Any = None,
        return_attention_weights: Any = None,
    ) -> Any:
        """Products by types, scores and attention by the operator."""
        weight = conv.weight if conv.num_bases is None else _of_bases(conv)
        options = {"slope": float(conv.negative_slope), "heads": conv.heads, "width": conv.out_channels}
        out = run(
            "relational_attention",
            "as given",
            {**ends_of(conv, edge_index), "etype": edge_type},
            node={"x": x},
            weights={"W": ("etype", weight), "query": ("", conv.q), "key": ("", conv.k)},
            additive=conv.attention_mode == "additive-self-attention",
            **options,
        )
        out = out.reshape(-1, conv.heads * conv.out_channels) if conv.concat else out.mean(dim=1)
        return out if conv.bias is None else out + conv.bias


def _of_bases(conv: Any) -> Any:
    made = conv.att @ conv.basis.view(conv.num_bases, -1)
    return made.view(conv.num_relations, conv.in_channels, conv.heads * conv.out_channels)


class Transformer:
    """`HGTConv`."""

    @staticmethod
    def stays(conv: Any, x_dict: Any, edge_index_dict: Any) -> str:
        """Sparse matrices for edges, types without features, and types of edges in another order, stay.

        PyG takes types of edges to be sorted, as `conv.edge_types` are, and has other values where they are not.
        """
        missing = next((name for name in conv.node_types if name not in x_dict), None)
        if missing is not None or not edge_index_dict:
            return f"nodes of {missing!r} have no features" if missing is not None else "it has no edges"
        places = [conv.edge_types_map.get(key, 0) for key in edge_index_dict]
        if places != sorted(places):
            return "its types of edges come in another order than its own"
        reasons = [plain_edges(conv, x_dict[key[0]], each) for key, each in edge_index_dict.items()]
        return next((reason for reason in reasons if reason), "")

    @staticmethod
    def called(conv: Any, run: MessageOperator, x_dict: Any, edge_index_dict: Any) -> Any:
        """Keys, queries and values of each type of nodes first, then attention by the operator, then the rest."""
        torch = import_module("torch")
        heads, width = conv.heads, conv.out_channels // conv.heads
        made, begin, count = conv.kqv_lin(x_dict), {}, 0  # its order of types is the module's, not that of x_dict
        for name, each in made.items():
            begin[name], count = count, count + each.size(0)
        parts = torch.cat(list(made.values())).view(-1, 3, heads, width)
        rows = dict(zip(("key", "query", "value"), parts.unbind(1), strict=True))
        ends: tuple[list[Any], list[Any]] = ([], [])
        kinds: list[Any] = []
        for key, each in edge_index_dict.items():
            for end, name, index in zip(ends, (key[0], key[-1]), ends_of(conv, each).values(), strict=True):
                end.append(index + begin[name])
            kinds.append(torch.full_like(each[0], conv.edge_types_map[key]))
        of_types = (heads, len(conv.edge_types), width, width)
        weights = {
            "W_att": ("etype", conv.k_rel.weight.view(of_types).transpose(0, 1)),
            "W_msg": ("etype", conv.v_rel.weight.view(of_types).transpose(0, 1)),
            "factor": ("etype", torch.cat([conv.p_rel["__".join(key)] for key in conv.edge_types]) / width**0.5),
        }
        index = {"src": torch.cat(ends[0]), "dst": torch.cat(ends[1]), "etype": torch.cat(kinds)}
        out = run("transformer", "as given", index, node=rows, weights=weights).reshape(-1, conv.out_channels)
        found = {
            name: torch.nn.functional.gelu(out[begin[name] : begin[name] + each.size(0)])
            for name, each in made.items()
            if name in conv.dst_node_types
        }
        for name, each in conv.out_lin(found).items():
            found[name] = each
            if each.size(-1) == x_dict[name].size(-1):
                share = conv.skip[name].sigmoid()
                found[name] = share * each + (1 - share) * x_dict[name]
        return found


#: What replaces the convolutions of PyG, by module and class.
OF_PYG: dict[tuple[str, str], type[ReplacedConvolution]] = {
    (f"torch_geometric.nn.conv.{module}", name): each
    for module, name, each in (
        ("rgcn_conv", "RGCNConv", RelationalSum),
        ("rgcn_conv", "FastRGCNConv", RelationalSum),
        ("gcn_conv", "GCNConv", SymmetricSum),
        ("sage_conv", "SAGEConv", NeighbourMean),
        ("gat_conv", "GATConv", Attention),
        ("rgat_conv", "RGATConv", RelationalAttention),
        ("hgt_conv", "HGTConv", Transformer),
    )
}
