"""The processor for which recipes choose sizes: its vectors, registers and caches."""

from __future__ import annotations

from dataclasses import fields

from tiramisu_py import InstructionCosts, Target
from tiramisu_py import target as described
from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

#: The most lanes of a vector loop.
MOST_LANES = 64


@dataclass(frozen=True)
class Cpu:
    """A processor: size and number of its vector registers, sizes of the caches of a core in bytes, and cores; its
    name, which says what instructions cost on it.

    ::

        tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=512 << 10)
        tm.recipes.Cpu.here()                           # this machine's
        tm.recipes.Cpu.here(target="x86-64-v3")         # as given to `compile`

    Raises `ArgumentError` for impossible sizes.
    """

    vector_bytes: int
    registers: int
    first: int
    second: int
    cores: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        for field in fields(self)[:-1]:
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"tm.recipes.Cpu: {field.name} is {value!r}: give a positive integer")
        if self.vector_bytes not in (16, 32, 64):
            raise ArgumentError(f"tm.recipes.Cpu: vectors of {self.vector_bytes} bytes: choose 16, 32 or 64")

    @classmethod
    def here(cls, target: str | None = None, compiler: str | None = None) -> Cpu:
        """This machine's processor, or the one called `target` with the caches of this machine.

        Raises `ToolchainError` for a name that the compiler does not know.
        """
        return cls.of(described(target, compiler=compiler))

    @classmethod
    def of(cls, target: Target) -> Cpu:
        """The properties that recipes need of `tm.target(name)`, which they take as well."""
        return cls(target.vector_bytes, target.vector_registers, target.first, target.second, target.cores, target.name)

    @property
    def costs(self) -> InstructionCosts:
        """The costs of vector instructions on it; without a name, on most processors with such vectors."""
        arm = self.vector_bytes == 16 and self.registers == 32
        return InstructionCosts.of(self.name, self.vector_bytes, arm=arm)

    def lanes(self, element: int) -> int:
        """The number of elements of `element` bytes in a vector, rounded down to a power of two; at least 2."""
        return max(1 << max(self.vector_bytes // element, 1).bit_length() - 1, 2)

    def rows_of_sums(self, vectors: int) -> int:
        """The most rows of `vectors` vectors of sums that stay in registers, as `Target.rows_of_sums`."""
        return max((self.registers - vectors - 1) // vectors, 1)
