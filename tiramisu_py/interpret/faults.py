"""What the machine refuses to do."""

from __future__ import annotations

from tiramisu_py.errors import TiramisuError


class InterpretError(TiramisuError, RuntimeError):
    """The loop IR reads or writes what it must not; the message names buffer, index and statement."""
