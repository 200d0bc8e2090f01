"""Messages between ranks as operations of the host: their elements, peer, tag and request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Node, Post, Request, Side
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.lower.loops.boxes_of_points import Boxes, PointBoxes
from tiramisu_py.lower.operations.host_part import HostProgram, pieces_of_operation
from tiramisu_py.lower.operations.message_runs import LongSide, MessageRuns
from tiramisu_py.lower.operations.request_operations import Requested
from tiramisu_py.lower.ranks.one_rank import Ranked
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.statement import Message, Role, Statement


def tags(statements: Sequence[Statement]) -> dict[str, int]:
    """A tag for each exchange: its number in the order of declaration, from 1."""
    names = dict.fromkeys(s.link.message.exchange for s in statements if s.link.message is not None)
    return {name: number for number, name in enumerate(names, 1)}


class Messages:
    """The messages of a program."""

    def __init__(
        self, ranked: Ranked, host: HostProgram, variables: Mapping[LoopId, str], taken: frozenset[str]
    ) -> None:
        self.ranked = ranked
        self.program = ranked.program
        self.variables = variables
        self.tags = tags(self.program.acting)
        self.requested = Requested(self.program, host, variables, taken)

    def posts(self, statement: Statement, issued: Statement) -> list[LoweredOperation]:
        """The code of one half of an exchange; `issued` is the statement that represents it in the host's part."""
        return [
            Poster(self, statement, len(issued.loops), piece.frame).operation(piece)
            for piece in pieces_of_operation(issued)
        ]

    def completes(self, wait: Statement) -> list[LoweredOperation]:
        """The code of a wait for messages."""
        return self.requested.completes(wait)

    def around(self, body: Node) -> Node:
        """The code inside the scope of all requests."""
        return self.requested.around(body)


class Poster:
    """One half of an exchange, in one iteration of the host's loops."""

    def __init__(self, messages: Messages, statement: Statement, depth: int, frame: isl.Space) -> None:
        assert statement.link.message is not None
        self.messages = messages
        self.program = messages.program
        self.statement = statement
        self.message: Message = statement.link.message
        self.depth = depth
        self.frame = frame
        self.instances = statement.instances.intersect_params(self.program.context)
        self.outside = sets.graph(statement.prefix(depth), self.instances)
        self.template = Template()
        self.within = MessageRuns(self.program, statement)
        sends = statement.role is Role.SEND
        loaded = self.program.storage_for(statement, statement.source)
        self.storage = loaded if sends else self.program.storages[statement.memory.target]
        self.sends = sends

    def operation(self, piece: DomainPiece) -> LoweredOperation:
        """The half as an operation."""
        buffer = self.program.buffers[self.storage.buffer]
        array = array_name(buffer, None)
        elements = self._elements(piece.instances)
        peer = self._peer()
        node = Post(
            sends=self.sends,
            array=array,
            dtype=buffer.dtype,
            elements=elements,
            peer=peer,
            tag=self.messages.tags[self.message.exchange],
            mode=self.message.mode,
            request=self._request(),
            persistent=self._persistent(),
            statement=self.statement.name,
        )
        return LoweredOperation(piece, tuple(self.template.forms), node, frozenset({array, *self.within.arrays}))

    # -- elements

    def _element(self) -> isl.MultiAff:
        """The element that an instance sends or stores."""
        program, statement = self.program, self.statement
        frame = program.frame(self.storage)
        if not program.in_scope(statement, self.storage):
            loops = ", ".join(program.loops[loop].name for loop in frame)
            raise CompilerDefect(
                f"{statement.name} uses {self.storage.name} outside the loops ({loops}), "
                "but each of their iterations has its own copy: keep it in a buffer of the whole call"
            )
        operands = sets.joined(statement.prefix(len(frame)), program.value_of(statement))
        return sets.compose(operands, self.storage.index)

    def _elements(self, instances: isl.Set) -> Node:
        coords = self.statement.coords
        bulk = sets.outputs(coords)[self.depth :]
        points = self.outside.reverse().apply_range(
            sets.graph(sets.function(self.statement.frame, None, bulk), self.instances)
        )
        points = sets.domain_named(points, sets.tuple_name(self.frame)).intersect_domain(instances).coalesce()
        element, within = self.within.beside(sets.renamed(self._element(), None)), self.within
        of_coords = sets.graph(coords, self.instances).reverse().apply_range(sets.graph(element, self.instances))
        of_coords = of_coords.coalesce()
        single = element if sets.is_identity(coords) else sets.as_single_function(of_coords)
        strides, count = strides_of(single, self.depth), sets.out_size(self._element())
        names = [self.messages.variables[loop] for loop in self.statement.loops[self.depth :]]

        def fits(depth: int, boxes: Boxes) -> bool:
            if depth < len(bulk) and (single is None or None in strides[depth:]):
                return False
            steps = [strides[depth + side] for side in boxes.long]
            return within.fit([step[count:] for step in steps if step is not None])

        def forms(depth: int, boxes: Boxes) -> list[isl.PwAff]:
            first = self._first(depth, boxes, of_coords)
            return [*first, *boxes.extents]

        def code(depth: int, boxes: Boxes, values: Sequence[Expr]) -> Node:
            ends = len(values) - len(boxes.extents)
            sides = [(values[ends + side], strides[depth + side]) for side in boxes.long]
            long = [LongSide(Side(extent, step[:count]), step[count:]) for extent, step in sides if step is not None]
            return within.part(values[:count], long, values[count:ends], None)

        return PointBoxes(points, self.template, self.program.context, names, fits, forms, code).enumerated()

    def _first(self, depth: int, boxes: Boxes, of_coords: isl.Map) -> list[isl.PwAff]:
        """The first element of a box, as a function of the prefix; at depth 0, of the coordinates outside."""
        if depth == 0:
            least = sets.graph_of(boxes.least)
            at = sets.with_inputs(least).apply_range(of_coords)
        else:
            names = [f"@outside{i}" for i in range(self.depth)]
            at = sets.graph_of(boxes.least).apply_range(sets.leading_as_params(of_coords, names))
        found = sets.as_function(sets.piecewise(at))
        domain = boxes.prefixes
        return [form.gist(domain).coalesce() for form in found]

    # -- the other end

    def _peer(self) -> Expr:
        found = sets.graph(sets.renamed(self.message.peer, None), self.instances)
        peers = self.outside.reverse().apply_range(found)
        peers = sets.domain_named(peers, sets.tuple_name(self.frame)).coalesce()
        if not peers.is_single_valued():
            raise CompilerDefect(
                f"one message of {self.statement.handle} goes to several ranks: "
                "collapse_many only loops whose iterations all have the same other rank"
            )
        return self.rank_at(peers)

    def rank_at(self, ranks: isl.Map) -> Expr:
        """The number of the rank whose coordinates are the image of a relation from the frame outside."""
        domain = ranks.domain()
        forms = [form.gist(domain).coalesce() for form in sets.as_function(sets.piecewise(ranks))]
        return self.number(self.template.places(forms))

    def number(self, coordinates: Sequence[Expr]) -> Expr:
        """The number of the rank with these coordinates."""
        grid = self.messages.ranked.grid
        if grid is None or len(coordinates) != len(grid.extents):
            count = 0 if grid is None else len(grid.extents)
            raise CompilerDefect(
                f"{self.statement.handle} names a rank by {len(coordinates)} coordinates, but the process grid has "
                f"{count} axes"
            )
        number: Expr = arithmetic.number(0)
        for place, extent in zip(coordinates, grid.extents, strict=True):
            number = arithmetic.added(_product(number, extent), place)
        return number

    # -- requests

    def _request(self) -> Request | None:
        if not self.message.asynchronous:
            return None
        slots = self.messages.requested.of(self.statement)
        return Request(slots.name, slots.index(self.template, self.frame))

    def _persistent(self) -> bool:
        """Whether the request is persistent; raises `CompilerDefect` if its messages are not the same each time."""
        if not self.message.persistent:
            return False
        name = self.statement.handle
        if not self.message.asynchronous:
            raise CompilerDefect(f"{name} cannot be persistent: a blocking message has no request to keep")
        slot = self.messages.requested.of(self.statement).slot
        element = sets.joined(
            *(sets.function(self.statement.frame, None, sets.outputs(f)) for f in (self._element(), self.message.peer)),
            sets.function(self.statement.frame, None, sets.outputs(self.statement.coords)[self.depth :]),
        )
        what = self.outside.reverse().apply_range(sets.graph(element, self.instances))
        in_slot = slot.reverse().apply_range(what)
        scoped = self.program.buffers[self.storage.buffer].scope
        if scoped or not slot.apply_range(in_slot).is_subset(what):
            raise CompilerDefect(
                f"{name} cannot be persistent: its elements or its other rank change between two uses of a "
                "request; if they repeat, as rows t % 3 of a buffer do, "
                f"{name}.set_wait_access(t % 3) keeps a request for each place; otherwise leave tm.PERSISTENT out"
            )
        return True


def strides_of(element: isl.MultiAff | None, depth: int) -> list[tuple[int, ...] | None]:
    """For each coordinate from `depth` on, the step of each index; None if a step is not constant."""
    found: list[tuple[int, ...] | None] = []
    if element is None:
        return [None]
    for position in range(depth, sets.in_size(element)):
        steps = [sets.stride(form, position) for form in sets.outputs(element)]
        found.append(None if None in steps else tuple(step for step in steps if step is not None))
    return found


def _product(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const):
        return arithmetic.times(b, int(a.value)) if a.value else a
    return arithmetic.times(a, int(b.value)) if isinstance(b, Const) else Binary("*", a, b, int64)
