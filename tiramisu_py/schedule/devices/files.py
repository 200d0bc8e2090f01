"""Files as a memory: the storage that values have there, beside the one in memory."""

from __future__ import annotations

from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.extents import default_extents, default_place
from tiramisu_py.algorithm.domains.runs import stored_axes
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, Transfer
from tiramisu_py.program.storage import Buffer, Memory, Storage


def with_file(program: Program, source: str, transfer: Transfer) -> tuple[Program, str]:
    """The program with the file of a source, and the name of its storage there; "" for a transfer without files.

    The first store makes it: as large as an array of all values, in memory FILE.
    """
    if not transfer.uses_files:
        return program, ""
    name = file_of(program, source)
    if name is not None:
        return program, name
    if transfer.source == FILES:
        raise CommandError(
            f"no transfer stores {source} to a file, from which to load it: first "
            f"{program.algorithm.name}.create_xfer(..., {source}[...], tm.CPU2FILE)"
        )
    declared = program.algorithm.source(source)
    if not isinstance(declared, Computation):
        raise CommandError(f"{source} is an input, which the caller keeps: store values of a computation to files")
    if declared.guards or isinstance(declared.dtype, TupleType):
        what = "several components" if isinstance(declared.dtype, TupleType) else "conditions on values"
        raise CommandError(f"{source} has {what}: files hold values of one type whose indices are known")
    axes = stored_axes(program.algorithm, declared)
    extents = default_extents(declared.domain, program.context, axes)
    name = free_name(program, f"{source}_file")
    buffer = Buffer(name, extents, declared.dtype, Memory.FILE)
    words = f"the file of {source}"
    storage = Storage(name, source, name, default_place(declared.domain, axes), chosen=True, words=words)
    return program.with_buffer(buffer).with_storage(storage), name


def file_of(program: Program, source: str) -> str | None:
    """The storage of a source in a file, if there is one."""
    found = (s.name for s in program.storages.values() if s.source == source)
    return next((name for name in found if program.buffers[program.storages[name].buffer].memory is Memory.FILE), None)
