"""The error that the machine raises."""

from __future__ import annotations

from tiramisu_py.errors import TiramisuError


class InterpretError(TiramisuError, RuntimeError):
    """An invalid access or operation of the loop IR; the message names buffer, index and statement."""
