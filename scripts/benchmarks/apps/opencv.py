"""The apps for which OpenCV has functions: whole pictures at a time, in its own threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Run = Callable[[], object]
#: A program computes into the array, or its calls return another array with the result.
Program = Callable[[Any, Mapping[str, Any], Any], Run]


def harris(cv2: Any, given: Mapping[str, Any], out: Any) -> Run:
    """`cornerHarris` of the weighted sum of the planes; the result is what it makes inside the border."""
    red, green, blue = given["rgb"]
    grey, corners = np.zeros_like(red), np.zeros_like(red)

    def run() -> Any:
        cv2.addWeighted(red, 0.299, green, 0.587, 0, dst=grey)
        cv2.scaleAdd(blue, 0.114, grey, dst=grey)
        cv2.cornerHarris(grey, 3, 3, 0.04, dst=corners)
        return corners[2:-2, 2:-2]

    return run


PROGRAMS: dict[str, Program] = {"harris": harris}
#: How far a result may be from NumPy's, where it is not as close as ours.
CLOSE: dict[str, float] = {}
