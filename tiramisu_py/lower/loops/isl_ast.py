"""isl's AST generator: from schedules to trees of loops, without its pitfalls.

Callbacks keep their handles alive while isl may use them. An exception inside a callback is stored while isl's frames
unwind, and raised again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_form
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.records import dataclass

_LEAF = "leaf"


@dataclass(frozen=True)
class LoopNode:
    """``for (iterator = first; condition; iterator += step) body``; a degenerate one has one iteration, `first`."""

    iterator: str
    first: isl.AstExpr
    condition: isl.AstExpr
    step: int
    degenerate: bool
    body: Tree


@dataclass(frozen=True)
class GuardNode:
    """``if (condition) then otherwise``."""

    condition: isl.AstExpr
    then: Tree
    otherwise: Tree | None


@dataclass(frozen=True)
class SequenceNode:
    """Trees in sequence."""

    children: tuple[Tree, ...]


@dataclass(frozen=True)
class LeafNode:
    """The execution of one statement; `position` is the number of its `Leaf` in the order of generation."""

    position: int


Tree = LoopNode | GuardNode | SequenceNode | LeafNode


@dataclass(frozen=True)
class Leaf:
    """One statement at one place of the tree.

    `instance` is the instance as a function of the enclosing iterators, and `coordinates` are its coordinates as isl's
    code computes them. `build` turns functions of the instance into expressions valid at this place; it may only be
    used in the callback that receives the leaf.
    """

    statement: str
    coordinates: Sequence[isl.AstExpr]
    instance: isl.PwMultiAff
    build: isl.AstBuild

    def expressions(self, function: isl.MultiAff) -> list[isl.AstExpr]:
        """The components of a function of the instance, simplified in the context of the enclosing loops."""
        if sets.out_size(function) == 0:
            return []
        at = isl.PwMultiAff.from_multi_aff(sets.renamed(function, _LEAF)).pullback_pw_multi_aff(self.instance)
        access = self.build.access_from_pw_multi_aff(at)
        return [access.get_op_arg(i) for i in range(1, access.get_op_n_arg())]

    def values(self, forms: Sequence[isl.PwAff]) -> list[isl.AstExpr]:
        """The values of forms that may be piecewise."""
        return [of_form(self.build, form.pullback_pw_multi_aff(self.instance)) for form in forms]


def positions(tree: Tree) -> Iterator[int]:
    """The leaves of a tree, by their numbers."""
    match tree:
        case LeafNode():
            yield tree.position
        case SequenceNode():
            for child in tree.children:
                yield from positions(child)
        case GuardNode():
            yield from positions(tree.then)
            if tree.otherwise is not None:
                yield from positions(tree.otherwise)
        case LoopNode():
            yield from positions(tree.body)


@deep
def loops_of(tree: Tree) -> list[LoopNode]:
    """The loops of a tree."""
    match tree:
        case SequenceNode():
            return [loop for child in tree.children for loop in loops_of(child)]
        case GuardNode():
            return loops_of(tree.then) + ([] if tree.otherwise is None else loops_of(tree.otherwise))
        case LoopNode():
            return [tree, *loops_of(tree.body)]
    return []


class _Callback:
    """The function that isl calls at each leaf; after a first exception, kept in `failure`, it does nothing."""

    def __init__(self, at_leaf: Callable[[Leaf], None]) -> None:
        self.at_leaf = at_leaf
        self.count = 0
        self.failure: BaseException | None = None

    def __call__(self, node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
        if self.failure is not None:
            return node
        try:
            self.at_leaf(_leaf(node, build))
            marked = node.set_annotation(isl.Id(str(self.count), None, node.get_ctx()))
            self.count += 1
            return marked
        except BaseException as failure:
            self.failure = failure
            return node


def _leaf(node: isl.AstNode, build: isl.AstBuild) -> Leaf:
    call = node.user_get_expr()
    coordinates = [call.get_op_arg(i) for i in range(1, call.get_op_n_arg())]
    schedule = isl.Map.from_union_map(build.get_schedule())
    instance = sets.in_small_floors(isl.PwMultiAff.from_map(schedule.reverse()))
    return Leaf(sets.in_name(schedule), coordinates, instance, build)


def generated(
    context: isl.Set,
    schedule: isl.UnionMap,
    iterators: Sequence[str],
    options: isl.UnionMap | None,
    at_leaf: Callable[[Leaf], None],
) -> Tree:
    """The tree that executes the instances of `schedule` in its order; `at_leaf` is called for each leaf, in order.

    `iterators` names the dimensions of the schedule. Raises the exceptions of `at_leaf`, and `CompilerDefect` if isl
    finds no code.
    """
    build = isl.AstBuild.from_context(context)
    names = isl.IdList.alloc(context.get_ctx(), len(iterators))
    for name in iterators:
        names = names.add(isl.Id(name, None, context.get_ctx()))
    build = build.set_iterators(names)
    if options is not None:
        build = build.set_options(options)
    callback = _Callback(at_leaf)
    build, _handle = build.set_at_each_domain(callback)
    node, error = None, None
    try:
        node = build.node_from_schedule_map(schedule)
    except isl.Error as raised:
        error = raised
    if callback.failure is not None:
        raise callback.failure
    if node is None:
        raise CompilerDefect(f"isl generates no loops for this program: {error}")
    return _tree(node)


@deep
def _tree(node: isl.AstNode) -> Tree:
    kind = cast(isl.ast_node_type, node.get_type()).name
    if kind == "for_":
        return _loop(node)
    if kind == "if_":
        otherwise = _tree(node.if_get_else_node()) if node.if_has_else_node() else None
        return GuardNode(node.if_get_cond(), _tree(node.if_get_then_node()), otherwise)
    if kind == "block":
        children = node.block_get_children()
        trees = (_tree(children.get_at(i)) for i in range(children.n_ast_node()))
        return SequenceNode(tuple(trees))
    if kind == "user":
        return LeafNode(int(node.get_annotation().get_name()))
    raise CompilerDefect(f"isl's AST has a node of an unknown kind: {kind}")


def _loop(node: isl.AstNode) -> LoopNode:
    degenerate = bool(node.for_is_degenerate())
    first = node.for_get_init()
    return LoopNode(
        iterator=node.for_get_iterator().get_id().get_name(),
        first=first,
        condition=first if degenerate else node.for_get_cond(),
        step=1 if degenerate else sets.number(node.for_get_inc().get_val()),
        degenerate=degenerate,
        body=_tree(node.for_get_body()),
    )


# -- schedules and options


def scheduled(times: Sequence[tuple[isl.Set, isl.MultiAff]]) -> isl.UnionMap:
    """The union of time maps, each on its instances.

    Equations are made explicit: isl cuts a loop only at conditions that name its iterator.
    """
    maps = [sets.graph(time, instances).detect_equalities() for instances, time in times]
    result = maps[0].to_union_map()
    for each in maps[1:]:
        result = result.union(each.to_union_map())
    return result


def loop_options(space: isl.Space, choices: Sequence[str]) -> isl.UnionMap:
    """isl's options: for each schedule dimension ``separate``, ``atomic``, or an empty string for isl's default."""
    result = isl.UnionMap.empty(space.params())
    for position, choice in enumerate(choices):
        if choice:
            option = sets.function(space, choice, [sets.constant(space, position)])
            result = result.union(sets.graph(option).to_union_map())
    return result
