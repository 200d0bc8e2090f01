"""One root nest at a time: from its schedule to isl's tree of loops to loop IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.dependence.spare_updates import is_undisturbed
from tiramisu_py.ir import Block, For, If, Let, Load, Node, Store
from tiramisu_py.ir.arithmetic.large_expressions import with_named_parts
from tiramisu_py.ir.arithmetic.remainders import in_quotients
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names, walk
from tiramisu_py.lower.loops.anchors import Anchor, anchors_of, parted
from tiramisu_py.lower.loops.dimensions import Dimension
from tiramisu_py.lower.loops.executed_order import ExecutedOrder
from tiramisu_py.lower.loops.generated_leaves import Asked, GeneratedLeaf
from tiramisu_py.lower.loops.isl_ast import (
    GuardNode,
    Leaf,
    LoopNode,
    Tree,
    generated,
    loop_options,
    positions,
    scheduled,
)
from tiramisu_py.lower.loops.register_windows import Ring, Rotation, rotation_of
from tiramisu_py.lower.loops.tree_to_loops import TreeToLoops, upper_bound, value
from tiramisu_py.lower.loops.value_bounds import ValueBounds
from tiramisu_py.lower.loops.value_places import at_value
from tiramisu_py.lower.statements.allocation import Fragment, allocated_in, sequence
from tiramisu_py.lower.statements.body import Body
from tiramisu_py.lower.statements.instances import Instance, arrays_of
from tiramisu_py.lower.statements.loop_names import loop_value
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.lower.statements.reduction_copies import privates
from tiramisu_py.program.loops import Bulk, Loop, LoopId, Parallel
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory, first_value

#: Nests of so many pieces, whose loops take isl long, are anchored before it has parted their iterations.
MANY_BODIES = 16
#: Innermost loops stay whole if cutting them makes more leaves than this for each piece.
MOST_LEAVES = 16


class Nest(TreeToLoops[list[Fragment]]):
    """The statements of one root nest, and their translation to loops.

    `variables` names the variable of each loop; `reserved` are names that no other variable may have. `first` is the
    first time dimension that orders statements of the nest, and `context` holds around the nest. `arrays` may have to
    be allocated; `rings` whose buffers the nest uses are rotated in it.
    """

    first = 1

    def __init__(
        self,
        program: Program,
        bodies: Sequence[Body | LoweredOperation],
        variables: Mapping[LoopId, str],
        reserved: frozenset[str],
        arrays: Mapping[str, Instance] | None = None,
        rings: Sequence[Ring] = (),
    ) -> None:
        self.program = program
        self.context = program.context
        self.arrays = arrays_of(program) if arrays is None else arrays
        self.bodies = {body.piece.name: body for body in bodies}
        self.variables = variables
        self.reserved = reserved
        self.buffers = {body.piece.name: self._temporaries(body.buffers) for body in bodies}
        self.names = {body.piece.statement.name: self._names(body.piece.statement) for body in bodies}
        self.leaves: list[Fragment | Anchor] = []
        self.emitted: list[GeneratedLeaf | None] = []
        self.anchors: dict[str, Anchor] = {}
        taken = reserved.union(variables.values())
        used = {name for body in bodies for name in body.buffers}
        moving = [rotation_of(program, ring, taken) for ring in rings if ring.buffer in used]
        self.rotations: dict[str, Rotation] = {rotation.name: rotation for rotation in moving}

    def lowered(self) -> Fragment | None:
        """The loops of the nest; None if nothing is executed."""
        anchored = len(self.bodies) >= MANY_BODIES and self._may_be_parted()
        if anchored:
            self._anchor()
        found = self._lowered()
        if not anchored and found is not None and parted(self.arrays, found.node, found.waiting):
            self._anchor()
            found = self._lowered()
        return found

    def _anchor(self) -> None:
        """Keep the iterations whole to which buffers are local."""
        self.anchors = {anchor.name: anchor for loop in self._owners() for anchor in self._anchors(loop)}

    def _may_be_parted(self) -> bool:
        """Whether some piece has no part in some iterations to which a buffer is local."""
        for loop in self._owners():
            inside = [body.piece for body in self.bodies.values() if loop in body.piece.statement.loops]
            iterations = list[isl.Set]()
            for piece in inside:
                prefix = sets.from_frame(piece.statement.prefix(piece.statement.depth(loop) + 1), piece.frame)
                iterations.append(piece.instances.apply(sets.graph(prefix)))
            if not all(each.is_equal(iterations[0]) for each in iterations):
                return True
        return False

    def _bounds(self) -> ValueBounds:
        """Move tests of loaded values into the bounds of loops."""
        taken = self.reserved.union(self.variables.values())
        on_ranks = self.program.runs_on_ranks or self.program.ranks.grid
        whole = [] if on_ranks else [array for array in self.arrays.values() if self._is_whole_before(array)]
        extents = {array.name: tuple(typed(extent, int64) for extent in array.buffer.extents) for array in whole}
        return ValueBounds(
            taken, self._declared, self._never_falls, extents, self._may_be_unstarted, self._is_disturbed
        )

    def _is_whole_before(self, array: Instance) -> bool:
        """Whether an array is there as a whole before the nest: the caller's, or what only other nests store."""
        if array.argument:
            return True
        kept = array.buffer.memory in (Memory.HOST, Memory.GPU) and not array.buffer.scope
        return kept and all(isinstance(body, Body) and body.buffer != array.name for body in self.bodies.values())

    def _owners(self) -> set[LoopId]:
        """The innermost loops of the scopes of buffers."""
        buffers = [self.arrays[name].buffer for names in self.buffers.values() for name in names]
        return {buffer.scope[-1] for buffer in buffers if buffer.scope}

    def _temporaries(self, names: frozenset[str]) -> list[str]:
        return sorted(name for name in names if name in self.arrays and not self.arrays[name].argument)

    def _anchors(self, loop: LoopId) -> list[Anchor]:
        statements = {body.piece.statement.name: body.piece.statement for body in self.bodies.values()}
        return anchors_of(self.program, list(statements.values()), loop)

    def _lowered(self) -> Fragment | None:
        tree = self._tree(("separate", "atomic"))
        if len(self.leaves) > MOST_LEAVES * (1 + len(self.bodies)):
            tree = self._tree(("atomic", "atomic"))
        self._verify(tree)
        fragments = self.translated(tree)
        if not fragments:
            return None
        waiting = frozenset(name for fragment in fragments for name in fragment.waiting)
        found = allocated_in(fragments, self._scoped(waiting, 1))
        return replace(found, node=self._bounds().tightened(found.node))

    # -- the schedule

    def _tree(self, choices: tuple[str, str]) -> Tree:
        """isl's tree, with one option for innermost loops and one for the loops around them."""
        self.leaves.clear()
        self.emitted.clear()
        dimensions = self._dimensions()
        schedule, space = self._schedule(dimensions)
        options = self._options(dimensions, space, choices)
        iterators = [dimension.iterator for dimension in dimensions]
        return generated(self.context, schedule, iterators, options, self._at_leaf)

    def _dimensions(self) -> list[Dimension]:
        """The time dimensions that order instances within this nest."""
        statements = [body.piece.statement for body in self.bodies.values()]
        kept = []
        for position in self._positions():
            dimension = Dimension(position)
            anchored = any(anchor.level == dimension.depth for anchor in self._added())
            if dimension.is_loop or anchored or self._orders(statements, dimension.depth):
                kept.append(dimension)
        return kept

    def _positions(self) -> range:
        """The positions in the time of what may order instances within this nest."""
        return range(self.first, 2 * max(len(body.piece.statement.loops) for body in self.bodies.values()) + 1)

    def _added(self) -> list[Anchor | Rotation]:
        """The instances that are scheduled in addition to the statements."""
        return [*self.anchors.values(), *self.rotations.values()]

    def _orders(self, statements: Sequence[Statement], level: int) -> bool:
        positions = (self.program.positions[s.name] for s in statements)
        return len({p[level] if level < len(p) else 0 for p in positions}) > 1

    def _schedule(self, dimensions: Sequence[Dimension]) -> tuple[isl.UnionMap, isl.Space]:
        times = []
        for body in self.bodies.values():
            time = self._time(body.piece.statement)
            function = sets.function(body.piece.statement.frame, None, [time[d.position] for d in dimensions])
            times.append((body.piece.instances, sets.from_frame(function, body.piece.frame)))
        for anchor in self._added():
            time = sets.outputs(anchor.time)
            kept = [time[dimension.position] for dimension in dimensions]
            times.append((anchor.instances, sets.function(anchor.instances.get_space(), None, kept)))
        return scheduled(times), sets.sized_frame(self.context.get_space(), None, len(dimensions))

    def _time(self, statement: Statement) -> list[isl.Aff]:
        """The time of the instances of a statement."""
        return sets.outputs(self.program.times[statement.name])

    def _options(
        self, dimensions: Sequence[Dimension], space: isl.Space, choices: tuple[str, str]
    ) -> isl.UnionMap | None:
        """isl's options: inner loops are cut into ranges with the same pieces; outer ones stay whole for small code."""
        if len(self.bodies) == 1 and next(iter(self.bodies.values())).piece.instances.n_basic_set() <= 1:
            return None
        return loop_options(space, [self._choice(dimension, choices) for dimension in dimensions])

    def _choice(self, dimension: Dimension, choices: tuple[str, str]) -> str:
        if not dimension.is_loop:
            return ""
        nests = [body.piece.statement.loops for body in self.bodies.values()]
        here = [loops for loops in nests if len(loops) > dimension.depth]
        innermost = all(len(loops) == dimension.depth + 1 for loops in here)
        parallel = any(isinstance(self.program.loops[loops[dimension.depth]].tag, Parallel) for loops in here)
        return choices[0] if innermost and not parallel else choices[1]

    # -- leaves

    def _at_leaf(self, leaf: Leaf) -> None:
        if leaf.statement in self.anchors:
            self.leaves.append(self.anchors[leaf.statement])
            self.emitted.append(None)
            return
        if leaf.statement in self.rotations:
            self.emitted.append(GeneratedLeaf(leaf.statement, leaf.coordinates))
            rotation = self.rotations[leaf.statement]
            self.leaves.append(Fragment(rotation.node, rotation.statement, frozenset({rotation.ring.buffer})))
            return
        body = self.bodies[leaf.statement]
        statement = body.piece.statement
        forms = leaf.values(body.forms) if isinstance(body, LoweredOperation) else leaf.expressions(body.forms)
        self.emitted.append(GeneratedLeaf(leaf.statement, leaf.coordinates, forms))
        values = [value(e, self.names[statement.name]) for e in forms]
        waiting = frozenset(self.buffers[leaf.statement])
        node = with_named_parts(body.at(values), Names(self.reserved.union(self.variables.values())))
        self.leaves.append(Fragment(node, statement, waiting))

    def _verify(self, tree: Tree) -> dict[str, isl.Set]:
        """Condition 5: the loops execute exactly the instances of the pieces, in the order of their time."""
        asked = {name: self._asked(body) for name, body in self.bodies.items()}
        for rotation in self.rotations.values():
            instances, time = rotation.instances, self._from_first(sets.outputs(rotation.time))
            space = instances.get_space()
            asked[rotation.name] = Asked(rotation.name, instances, sets.function(space, None, time))
        listed = [Dimension(position) for position in self._positions()]
        positions = {dimension.iterator: at for at, dimension in enumerate(listed)}
        return ExecutedOrder(self.context, asked, self.emitted, positions, tree).executed()

    def _asked(self, body: Body | LoweredOperation) -> Asked:
        statement, frame = body.piece.statement, body.piece.frame
        time = sets.function(statement.frame, None, self._from_first(self._time(statement)))
        forms = body.forms if isinstance(body, LoweredOperation) else sets.outputs(body.forms)
        return Asked(statement.name, body.piece.instances, sets.from_frame(time, frame), forms)

    def _from_first(self, time: Sequence[isl.Aff]) -> list[isl.Aff]:
        """A time without the dimensions that are the same in the whole nest."""
        return [time[position] for position in self._positions()]

    # -- the tree

    def leaf(self, position: int) -> list[Fragment]:
        """The code of a statement; nothing for an anchor, which marks the begin or the end of an iteration."""
        leaf = self.leaves[position]
        return [] if isinstance(leaf, Anchor) else [leaf]

    def sequence(self, parts: Sequence[list[Fragment]]) -> list[Fragment]:
        """All fragments, in order."""
        return [fragment for part in parts for fragment in part]

    def guard(self, tree: GuardNode, then: list[Fragment], otherwise: list[Fragment] | None) -> list[Fragment]:
        """One fragment with both branches; an array that both use is allocated in each if one allocates it already."""
        otherwise = otherwise or []
        if not then and not otherwise:
            return []
        both = sequence([*then, *otherwise])
        if mixed := [buffer for buffer in self._scoped(both.waiting, 1) if buffer.name in both.allocated]:
            then, otherwise = ([allocated_in(side, mixed)] if side else [] for side in (then, otherwise))
            both = sequence([*then, *otherwise])
        condition = value(tree.condition, self.names[both.statement.name])
        no = sequence(otherwise).node if otherwise else None
        yes: Node = sequence(then).node if then else Block(())
        return [replace(both, node=If(condition, yes, no))]

    def loop(self, tree: LoopNode, body: list[Fragment]) -> list[Fragment]:
        """The loop as one fragment, with the arrays allocated that are local to its iterations."""
        if not body:
            return []
        statement = body[0].statement
        depth = self._depth(tree.iterator)
        names = self.names[statement.name]
        variable = self.variables[statement.loops[depth]]
        first = value(tree.first, names)
        waiting = frozenset(name for fragment in body for name in fragment.waiting)
        if tree.degenerate:
            scoped = self._scoped(waiting, depth + 1)
            whole = [array for array in scoped if self._is_whole(tree, array.buffer.scope[-1])]
            inside = allocated_in(body, whole)
            over_ranks = self.program.loops[statement.loops[depth]].is_rank
            return [inside if over_ranks else replace(inside, node=Let(variable, first, inside.node))]
        inside = allocated_in(body, self._scoped(waiting, depth + 1))
        upper = in_quotients(upper_bound(tree, names))
        node = self._for(statement.loops[depth], For(variable, first, upper, inside.node, tree.step))
        return [replace(inside, node=node)]

    def _for(self, loop: LoopId, node: For) -> Node:
        tag = self.program.loops[loop].tag
        tag = None if isinstance(tag, Bulk) else tag
        joined = _joined(self.program.loops[loop])
        tagged = replace(node, tag=tag, reductions=privates(self.program, loop, node.body), joined=joined)
        single = at_value(tagged, self._declared)
        if single is not None:
            return single
        return _where_not_empty(tagged) if self._may_be_unstarted(tagged) else tagged

    def _may_be_unstarted(self, node: For) -> bool:
        """Whether private copies are combined into a partial result, which is not started where it has no terms."""
        partials = {
            s.memory.target
            for s in self.program.statements.values()
            if s.link.combination is not None and s.role is Role.INIT
        }
        buffers = {self.program.storages[target].buffer for target in partials}
        return any(private.buffer in buffers for private in node.reductions)

    def _is_disturbed(self, node: For) -> bool:
        """Whether another iteration of a concurrent loop may use what a loop's updates store, guards left aside."""
        names = {store.statement for store in walk(node.body) if isinstance(store, Store)}
        updates = (self.program.statements[name] for name in names if name in self.program.statements)
        return any(not is_undisturbed(self.program, update) for update in updates if update.role is Role.UPDATE)

    def _declared(self, loaded: Expr) -> tuple[Expr, Expr] | None:
        """The bounds declared of a loaded value: of an element of an input whose array holds nothing else."""
        element = narrowest(loaded)
        storages = list(self.program.storages_in(element.buffer)) if isinstance(element, Load) else []
        declared = self.program.algorithm.inputs.get(storages[0].source) if len(storages) == 1 else None
        if declared is None or declared.values is None:
            return None
        low, high = declared.values
        return typed(low, int64), typed(high, int64)

    def _never_falls(self, buffer: str) -> bool:
        """Whether the elements of an array grow with their index: those of a monotone input, one after the other."""
        storages = list(self.program.storages_in(buffer))
        declared = self.program.algorithm.inputs.get(storages[0].source) if len(storages) == 1 else None
        if declared is None or not declared.monotone or len(declared.shape) != 1:
            return False
        return first_value(storages[0], self.program.context) is not None

    def _is_whole(self, tree: Tree, loop: LoopId) -> bool:
        """Whether a tree contains both anchors of a loop's iteration, hence the whole iteration."""
        found = {self._anchor_name(position) for position in positions(tree)}
        return {f"@first{loop}", f"@last{loop}"} <= found

    def _anchor_name(self, position: int) -> str:
        leaf = self.leaves[position]
        return leaf.name if isinstance(leaf, Anchor) else ""

    def _depth(self, iterator: str) -> int:
        return int(iterator.removeprefix("@"))

    def _names(self, statement: Statement) -> dict[str, Expr]:
        names: dict[str, Expr] = {name: Param(name, int64) for name in self.program.algorithm.params}
        for depth, loop in enumerate(statement.loops):
            names[f"@{depth}"] = loop_value(self.program, loop, self.variables[loop])
        return names

    def _scoped(self, waiting: frozenset[str], least: int) -> list[Instance]:
        """The waiting arrays whose scope has at least `least` loops; deeper scopes first, so that allocations nest."""
        arrays = [self.arrays[name] for name in sorted(waiting)]
        chosen = [array for array in arrays if len(array.buffer.scope) >= least]
        return sorted(chosen, key=lambda array: -len(array.buffer.scope))


def _joined(loop: Loop) -> str:
    """The name of a loop's bundle; empty for a loop of its own."""
    return "" if loop.bundle is None else ", ".join(loop.bundle.names)


def _where_not_empty(loop: For) -> Node:
    """The loop, in a guard unless it certainly has an iteration."""
    condition = simplified(Binary("<", loop.lower, loop.upper, bool_))
    return loop if isinstance(condition, Const) and condition.value else If(condition, loop)
