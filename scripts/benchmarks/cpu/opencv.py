"""The workloads in OpenCV: its own functions, whole pictures at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.cpu.workloads import WORKLOADS, Array

Run = Callable[[], object]


def programs(name: str, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """Programs by name, each built when it is called; none for workloads that OpenCV lacks."""
    import cv2  # noqa: PLC0415 (an optional peer)

    cv2.setNumThreads(int(os.environ["OMP_NUM_THREADS"]))
    makers: dict[str, Callable[[Any, Mapping[str, Any], Mapping[str, Array]], dict[str, Callable[[], Run]]]] = {
        "blur": blur, "gauss": gauss, "grey": grey, "edge": edge, "negative": negative, "warp": warp, "warp8": warp,
    }  # fmt: skip
    return makers[name](cv2, given, out) if name in makers else {}


def bordered(image: Array, out: Array, border: int, call: Callable[[Array], object]) -> Callable[[], Run]:
    """A function whose result has the size of its picture: the part inside the border is copied to `out` once."""

    def made() -> Run:
        whole = np.zeros_like(image)
        call(whole)
        out[:] = whole[border : border + out.shape[0], border : border + out.shape[1]]
        return lambda: call(whole)

    return made


def blur(cv2: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """The box filter."""
    image = given["image"][:, : out["by"].shape[1] + 2]
    return {"blur": bordered(image, out["by"], 1, lambda into: cv2.blur(image, (3, 3), dst=into))}


def gauss(cv2: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """OpenCV's Gaussian, and its general separable filter with the same weights."""
    image = given["image"][:, : out["smooth"].shape[1] + 4]
    weights = np.array([0.0625, 0.25, 0.375, 0.25, 0.0625], np.float32)
    return {
        "GaussianBlur": bordered(image, out["smooth"], 2, lambda into: cv2.GaussianBlur(image, (5, 5), 0, dst=into)),
        "sepFilter2D": bordered(
            image, out["smooth"], 2, lambda into: cv2.sepFilter2D(image, -1, weights, weights, dst=into)
        ),
    }


def grey(cv2: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """The conversion, with the pixels arranged in rows, since OpenCV distributes rows over threads."""
    count = out["brightness"].size
    columns = next(n for n in (8000, 2000, *range(100, 0, -1)) if count % n == 0)
    rgb, into = given["rgb"].reshape(-1, columns, 3), out["brightness"].reshape(-1, columns)
    return {"cvtColor": lambda: lambda: cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY, dst=into)}


def edge(cv2: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """A filter and three operations on whole pictures."""
    image, (rows, columns) = given["image"], out["edges"].shape
    weights = np.full((3, 3), 0.125, np.float32)
    weights[1, 1] = 0

    def made() -> Run:
        ring = np.zeros_like(image)
        first, second = np.zeros((rows, columns), np.uint8), np.zeros((rows, columns), np.uint8)
        here = ring[1:, 1:]

        def run() -> None:
            cv2.filter2D(image, -1, weights, dst=ring)
            cv2.absdiff(here[:rows, 1 : columns + 1], here[1 : rows + 1, :columns], dst=first)
            cv2.absdiff(here[1 : rows + 1, 1 : columns + 1], here[:rows, :columns], dst=second)
            cv2.add(first, second, dst=out["edges"])

        return run

    return {"filter2D, absdiff, add": made}


def negative(cv2: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """Two functions, each of which reads the picture; in rows, since OpenCV distributes rows over threads."""
    count = given["image"].size
    columns = next(n for n in (24000, 6000, *range(100, 0, -1)) if count % n == 0)
    image, inverse, brighter = (each.reshape(-1, columns) for each in (given["image"], *out.values()))

    def run() -> None:
        cv2.bitwise_not(image, dst=inverse)
        cv2.convertScaleAbs(image, dst=brighter, alpha=1.5)

    return {"bitwise_not, convertScaleAbs": lambda: run}


def warp(cv2: Any, given: Mapping[str, Any], out: Mapping[str, Array]) -> dict[str, Callable[[], Run]]:
    """The warp, with a map from where a pixel goes to where it comes from."""
    story, image, into = WORKLOADS["warp"].module(), given["image"], out["warped"]
    matrix = np.array([story.ACROSS, story.DOWN], np.float32)
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = into.shape[::-1]
    return {"warpAffine": lambda: lambda: cv2.warpAffine(image, matrix, size, dst=into, flags=how)}
