"""Sums that programs share, in two steps: the part of each program is a value of its own, and the sum adds these up.

::

    C[m, n]  =  sum over p2 of the block of program p2
        -->     C_parts[p2, m, n] = the block of program p2;   C[m, n] = sum over p2 of C_parts[p2, m, n]

So the parts are added in the order of programs, whoever computes them: ``combine=tm.TWO_PASS`` and ``tm.LAST_BLOCK``
differ in their schedules alone.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.values.programs import Programs
from tiramisu_py.language.values.stores import StoreInstances
from tiramisu_py.program.loops import Combine
from tiramisu_py.records import dataclass

#: How parts are added up that programs have stored.
IN_PARTS = (Combine.TWO_PASS, Combine.LAST_BLOCK)


@dataclass(frozen=True, eq=False)
class PartedSum:
    """The parts of programs with their executions, and the sum of them; `combine` says who adds them up."""

    parts: ProgramValue
    stores: StoreInstances
    total: ProgramValue
    combine: Combine


def in_parts(programs: Programs, value: ProgramValue, instances: StoreInstances) -> PartedSum | None:
    """A sum over programs as the sum of their parts; None where programs add in another way, or share no element.

    Raises `DeclarationError` for what a program adds several times.
    """
    combine = next((each for each in IN_PARTS if each.value == instances.site.combine), None)
    if combine is None or not value.over:
        return None
    repeated = [each.name for each in value.over if each.name not in programs.axes.programs]
    if repeated:
        raise DeclarationError(
            f"{instances.site.origin}: a program adds to an element of {value.name} several times, and with "
            f"combine=tm.{combine.name} its part is stored: add up in the program, and accumulate once"
        )
    own = [*value.over, *value.domain]
    name = fresh_name(f"{value.name}_parts", programs.taken, underscored)
    programs.taken.add(name)
    domain = {**value.over, **value.domain}
    parts = replace(value, name=name, domain=domain, over={}, op=None, stored=None, shape=None, ordered=False)
    total = replace(value, expr=Access(name, tuple(own), value.dtype, programs.owner))
    stores = replace(instances, places=(*value.over, *instances.places))
    return PartedSum(parts, stores, total, combine)
