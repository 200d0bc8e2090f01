"""The work of statements at given sizes: instances, arithmetic operations, bytes accessed, kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access, Binary, Call, Const, Expr, Select, Unary
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.counting.lattice_points import count
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

#: Memories on the chip: accesses to them cost no memory bandwidth.
ON_CHIP = (Memory.REGISTER, Memory.SHARED)


@dataclass(frozen=True)
class Work:
    """The numbers of arithmetic `operations`, of `bytes` accessed (each element read counts once, each element written
    once), and of `kernels` that the host launches.
    """

    operations: int
    bytes: int
    kernels: int


def operations(expression: Expr) -> int:
    """The number of operators and functions of an expression, without those of indices: compilers hoist them."""
    values = rewrite(expression, lambda e: Const(0, e.dtype) if isinstance(e, Access) else None)
    return sum(isinstance(e, Unary | Binary | Select | Call) for e in walk(values))


class Counter:
    """Counts the work of a program's statements; accesses, which do not depend on sizes, are computed once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._accesses = MemoryAccesses(program)

    def instances(self, names: Collection[str], params: Mapping[str, int]) -> int:
        """The total number of instances of some statements."""
        return sum(self._instances(self._program.statements[name], params) for name in names)

    def work(self, names: Collection[str], params: Mapping[str, int]) -> Work:
        """The total work of some statements."""
        statements = [self._program.statements[name] for name in names]
        done = sum(self._operations(s) * self._instances(s, params) for s in statements)
        return Work(done, self._bytes(statements, params), self._kernels(statements, params))

    def _instances(self, statement: Statement, params: Mapping[str, int]) -> int:
        return count(_at(statement.instances, params))

    def _operations(self, statement: Statement) -> int:
        if statement.role not in (Role.VALUE, Role.UPDATE):
            return 0
        combining = 1 if statement.role is Role.UPDATE else 0
        return combining + operations(statement.body)

    def _bytes(self, statements: list[Statement], params: Mapping[str, int]) -> int:
        read, written = list[tuple[str, isl.Set]](), list[tuple[str, isl.Set]]()
        for statement in statements:
            for source in self._accesses.sources(statement):
                relation = self._accesses.read_relation(statement, source)
                if relation is not None:
                    storage = self._program.storage_for(statement, source).name
                    read.append((storage, _at(relation.range(), params)))
            value = sets.graph(self._program.value_of(statement), statement.instances)
            written.append((statement.memory.target, _at(value.range(), params)))
        moved = [*sets.united_by_key(read).items(), *sets.united_by_key(written).items()]
        return sum(self._size(storage) * count(of) for storage, of in moved)

    def _size(self, storage: str) -> int:
        buffer = self._program.buffers[self._program.storages[storage].buffer]
        return 0 if buffer.memory in ON_CHIP else buffer.dtype.bytes

    def _kernels(self, statements: list[Statement], params: Mapping[str, int]) -> int:
        launches: dict[int, int] = {}
        for statement in statements:
            kernel = self._program.kernel_of(statement)
            if kernel is not None:
                of = sets.graph(statement.prefix(self._program.host_depth(statement)), statement.instances)
                launches[kernel] = max(launches.get(kernel, 0), count(_at(of.range(), params)))
        return sum(launches.values())


def _at(of: isl.Set, params: Mapping[str, int]) -> isl.Set:
    return sets.named(sets.fixed(of, params), None)
