"""The numbers and choices of the schedules of the stories, by the names of their arguments.

Each has other values than the one that the schedule derives or states, which is that of no argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Point = dict[str, Any]
_BANDS = (16, 32, 64, 128, 256)
_STREAMS = (True, False)
SPACES: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "stencil_chain": {"strip": (512, 1024), "vectors": (2, 4), "band": (200, 1600)},
    "hist": {"vectors": (2,), "tables": (2, 8), "streams": _STREAMS},
    "interpolate": {"band": (16, 64, 128), "ahead": (0, 128, 512), "vectors": (2,), "streams": _STREAMS},
    "bilateral_grid": {"cells": (2, 4), "vectors": (2,), "streams": _STREAMS},
    "harris": {"window": (True, False), "vectors": (2, 4), "band": _BANDS, "streams": _STREAMS},
    "nl_means": {"rows": (16, 32, 128), "vectors": (4, 16, 32), "streams": _STREAMS},
    "unsharp": {"slides": (True, False), "strip": (128, 512, 4096), "band": _BANDS, "streams": _STREAMS},
    "local_laplacian": {"tile": ((16, 512), (32, 256), (32, 1024), (64, 512)), "band": (16, 64), "streams": _STREAMS},
    "camera_pipe": {"band": (16, 32, 128), "strip": (128, 512, 1024), "vectors": (1,), "streams": _STREAMS},
    "conv_layer": {"rows": (4, 8, 16), "pixels": (4, 5, 6, 7), "channels": (8, 16, 32)},
    "max_filter": {"width": (64, 128, 192, 320, 512), "vectors": (2,), "streams": _STREAMS},
    "resize": {"band": (16, 32, 64, 128), "vectors": (2,), "streams": _STREAMS},
    "iir_blur": {"columns": (1, 2, 8), "rows": (2,), "streams": _STREAMS},
    "lens_blur": {"vectors": (2,), "band": (16, 32)},
    "blur": {"band": (4, 8, 16, 24), "vectors": (1, 2, 4), "streams": _STREAMS},
    "gauss": {"band": (4, 8, 16, 24), "vectors": (1, 2), "streams": _STREAMS},
    "edge": {"rows": (4, 5, 6, 12), "strip": (256, 1024, 2048), "slides": (True, False)},
    "heat": {
        "passes": (2, 3, 4, 5),
        "shared": (2, 6, 8),
        "columns": (512, 768, 1536, 2048),
        "high": (10, 20, 80),
        "streams": _STREAMS,
    },
    "warp": {"pixels": (8, 32), "rows": (4, 16), "ahead": (0, 4, 16)},
    "negative": {"block": (6400, 128000), "streams": _STREAMS},
    "grey": {"block": (6400, 128000), "streams": _STREAMS},
}


def told(point: Point) -> str:
    """A point in words: its arguments, as they are written."""
    return ", ".join(f"{name}={value}" for name, value in point.items()) or "as derived"
