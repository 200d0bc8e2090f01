"""Models of PyTorch whose convolutions of graphs become operators: `compile`, and what it has replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import wraps
from inspect import getclosurevars
from typing import Any

import tiramisu_py as tm
from tiramisu_py.errors import ArgumentError, UnsupportedError
from tiramisu_py.graphs.dgl import OF_DGL
from tiramisu_py.graphs.layers import Layer, layer
from tiramisu_py.graphs.message_models import MESSAGES
from tiramisu_py.graphs.preparations import PREPARATIONS
from tiramisu_py.graphs.pyg import OF_PYG, ReplacedConvolution
from tiramisu_py.graphs.torch_calls import LayerCalls, PreparedGraphs
from tiramisu_py.torch.functions import new_number, registered

_KNOWN = OF_PYG | OF_DGL
#: The attribute of a replaced convolution with what its last call became.
_SAID = "_tiramisu_said"


def compile(target: Any) -> Any:
    """Replace the convolutions of a PyTorch model by operators, one each; the rest stays PyTorch's.

    ::

        model = graphs.compile(Net())                      # a module, in place

        class Net(torch.nn.Module):
            @graphs.compile
            def forward(self, x, edge_index, edge_type):   # or its forward
                return self.conv(x, edge_index, edge_type)

    `target` is a module, a `forward` of one, or a function that calls modules. Known are RGCNConv, FastRGCNConv,
    RGATConv, HGTConv, GCNConv, GATConv and SAGEConv of PyTorch Geometric, and of DGL, on graphs with one kind of nodes,
    RelGraphConv, HGTConv, GraphConv, GATConv and SAGEConv, with their weights as they are: nothing of `state_dict`
    changes. Each becomes one proven program forwards and one backwards, without weights that are copied for edges; of
    PyG also under `torch.compile`, where it breaks no graph. Edges are sorted and verified once for a graph. A call
    with options that are not known here stays as it was: `replaced` tells which, and why.

    Raises `ArgumentError` for a model without such convolutions, and `UnsupportedError` without PyTorch.
    """
    torch = _torch()
    if isinstance(target, torch.nn.Module):
        if not _replace([target], _Operators()):
            raise ArgumentError(_nothing(type(target).__name__))
        return target
    if isinstance(target, type) or not callable(target):
        raise ArgumentError(f"graphs.compile takes a module of PyTorch, or a forward, not {target!r:.60}")
    return _Forward(target, torch)


def replaced(target: Any) -> dict[str, str]:
    """Say of each convolution of a module: "one operator", or why its last call stayed as it was."""
    if not isinstance(target, _torch().nn.Module):
        raise ArgumentError(f"graphs.replaced takes a module of PyTorch, not {target!r:.60}")
    modules = dict(target.named_modules())
    return {name: getattr(each, _SAID) for name, each in modules.items() if hasattr(each, _SAID)}


class _Forward:
    """A function whose convolutions are replaced when it is first called; of a class, when objects are made."""

    def __init__(self, function: Callable[..., Any], torch: Any) -> None:
        self._function, self._torch, self._operators = function, torch, _Operators()
        wraps(function)(self)

    def __set_name__(self, owner: type, name: str) -> None:
        made, operators = owner.__init__, self._operators  # type: ignore[misc]

        @wraps(made)
        def init(own: Any, *arguments: Any, **named: Any) -> None:
            made(own, *arguments, **named)
            _replace([own], operators)

        owner.__init__ = init  # type: ignore[misc]
        setattr(owner, name, self.bound())

    def bound(self) -> Callable[..., Any]:
        """The function, with the convolutions of its first argument replaced."""
        function, operators, is_compiling = self._function, self._operators, self._torch.compiler.is_compiling

        @wraps(function)
        def forward(own: Any, *arguments: Any, **named: Any) -> Any:
            if not is_compiling() and not _replace([own], operators):
                raise ArgumentError(_nothing(type(own).__name__))
            return function(own, *arguments, **named)

        return forward

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self._torch.compiler.is_compiling():
            known = getclosurevars(self._function)
            held = [*arguments, *named.values(), *known.nonlocals.values(), *known.globals.values()]
            if not _replace([each for each in held if isinstance(each, self._torch.nn.Module)], self._operators):
                raise ArgumentError(_nothing(getattr(self._function, "__name__", str(self._function))))
        return self._function(*arguments, **named)


def _replace(modules: list[Any], operators: _Operators) -> int:
    """Give the convolutions of some modules a class with another `forward`; how many there are."""
    count = 0
    for module in modules:
        for conv in module.modules():
            known = _KNOWN.get((type(conv).__module__, type(conv).__name__))
            count += known is not None
            if known is not None and not hasattr(conv, _SAID):
                conv.__class__ = operators.compiled(type(conv), known)
    return count


def _nothing(name: str) -> str:
    of_pyg, of_dgl = (", ".join(sorted(each for _, each in known)) for known in (OF_PYG, OF_DGL))
    return (
        f"{name} has no convolution that graphs.compile knows: of PyTorch Geometric these are {of_pyg}; of DGL {of_dgl}"
    )


class _Operators:
    """The operators of a compiled model, one for each layer and each choice of gradients."""

    def __init__(self) -> None:
        torch = _torch()
        graphs = PreparedGraphs()
        made: dict[Any, Any] = {}

        # PyTorch takes numbers as constants while it traces, and no functions: operators are found by theirs.
        @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator, unused-ignore]
        def find(*key: Any) -> list[int]:
            if key not in made:
                *rest, preparation, wrt = key
                calls = LayerCalls(key[0], _layer(preparation, *rest), preparation, wrt, graphs)
                made[key] = new_number()
                registered(calls, made[key])
            return [made[key]]

        def run(
            model: str,
            preparation: str,
            ends: Mapping[str, Any],
            *,
            node: Mapping[str, Any],
            edge: Mapping[str, Any] | None = None,
            weights: Mapping[str, Any] | None = None,
            **options: Any,
        ) -> Any:
            edge, owned = edge or {}, weights or {}
            values = {**node, **edge, **{name: each for name, (_, each) in owned.items()}}
            grows = torch.is_grad_enabled()
            wrt = tuple(name for name, each in values.items() if grows and each.requires_grad)
            first = next(iter(values.values()))
            shapes = [tuple((name, *each.shape[1:]) for name, each in of.items()) for of in (node, edge)]
            of_weights = tuple((n, of, *each.shape[1 if of else 0 :]) for n, (of, each) in owned.items())
            dtype = str(first.dtype).removeprefix("torch.")
            (number,) = find(model, tuple(sorted(options.items())), *shapes, of_weights, dtype, preparation, wrt)
            operator = getattr(torch.ops.tiramisu_py, f"{model}_{number}_forward").default
            types = next((each.shape[0] for of, each in owned.values() if of == "etype"), 1)
            sizes = [first.shape[0], ends["src"].shape[0], types, 1]
            return operator([*values.values(), *ends.values()], sizes)[0]

        self._run, self._is_compiling = run, torch.compiler.is_compiling
        self._classes: dict[type, type] = {}

    def compiled(self, own: type, known: type[ReplacedConvolution]) -> type:
        """A class of convolutions like another one, whose `forward` is an operator.

        Copies are of that class, too; files are written as of the class that it replaces.
        """
        run, is_compiling = self._run, self._is_compiling

        def forward(conv: Any, *arguments: Any, **named: Any) -> Any:
            reason = known.stays(conv, *arguments, **named)
            if not is_compiling():
                whose = "PyG's" if own.__module__.startswith("torch_geometric") else "DGL's"
                setattr(conv, _SAID, f"{whose} own, {reason}" if reason else "one operator")
            if reason:
                return own.forward(conv, *arguments, **named)  # type: ignore[attr-defined]
            return known.called(conv, run, *arguments, **named)

        def copied(conv: Any, memo: dict[int, Any]) -> Any:
            memo[id(conv)] = made = object.__new__(type(conv))
            made.__dict__.update(deepcopy(conv.__dict__, memo))
            return made

        def reduced(conv: Any, protocol: Any) -> Any:
            state = {name: each for name, each in conv.__dict__.items() if name != _SAID}
            return object.__new__, (own,), state

        if own not in self._classes:
            words = {"forward": forward, "__deepcopy__": copied, "__reduce_ex__": reduced, "__doc__": own.__doc__}
            words |= {_SAID: "not called yet", "__module__": own.__module__, "__qualname__": own.__qualname__}
            self._classes[own] = type(own.__name__, (own,), words)
        return self._classes[own]


def _layer(preparation: str, model: str, options: Any, node: Any, edge: Any, weights: Any, dtype: str) -> Layer:
    """The layer of a model, for values of some shapes."""
    return layer(
        MESSAGES[model](**dict(options)),
        node={name: shape for name, *shape in node},
        edge={name: shape for name, *shape in edge} | dict.fromkeys(PREPARATIONS[preparation].derived, ()),
        weights={name: (types, *shape) if types else shape for name, types, *shape in weights},
        dtype=getattr(tm, dtype),
    )


def _torch() -> Any:
    try:
        import torch  # noqa: PLC0415 - PyTorch is needed by those alone who call this
    except ImportError:
        raise UnsupportedError("PyTorch is not installed", "pip install 'tiramisu_py[interop]'") from None
    return torch
