"""A kernel called with arrays."""

from __future__ import annotations
from collections.abc import Mapping, Sequence
from typing import Any
from tiramisu_py.errors import UnsupportedError


class Called:
    @classmethod
    def of(cls, kernel: Any, given: Mapping[str, Any], grid: Sequence[int], *options: Any) -> Any:
        raise UnsupportedError("a kernel called with arrays is not built yet")
