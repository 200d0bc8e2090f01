"""Every story, compiled and evaluated once, in files from which ranks read it: a rank only runs what is prepared."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.conftest import QUICK
from tests.programs.ranks import mpi_stories as stories
from tiramisu_py.toolchain.compilers import library

SIZE = 17

#: Bytes and messages.
Sent = tuple[int, int]


@dataclass(frozen=True)
class Prepared:
    """A story, ready to run: its kernel, and for each rank the arguments, the results and what it is to send."""

    name: str
    kernel: tm.Kernel
    outputs: tuple[str, ...]
    given: tuple[Mapping[str, Any], ...]
    expected: tuple[tuple[np.ndarray, ...], ...]
    sends: tuple[Sent, ...]
    together: Sent


def parameters(f: tm.Function, whole: Mapping[str, Any]) -> dict[str, int]:
    """The parameter C of stories on pictures, from the shape."""
    if "C" not in f.algorithm.params:
        return {}
    array = next(value for value in whole.values() if isinstance(value, np.ndarray) and value.ndim > 1)
    return {"C": array.shape[1] - (2 if f.name == "blur" else 0)}


def prepared(name: str, variant: str, ranks: int) -> Prepared:
    """A story for so many ranks."""
    story = stories.module(name)
    f = story.VARIANTS[variant](ranks, SIZE)
    whole = story.sample(variant, SIZE, 1)
    params = {key: value for key, value in whole.items() if not isinstance(value, np.ndarray)}
    arrays = {key: value for key, value in whole.items() if key not in params}
    counted = f.cost("communication", **{**parameters(f, whole), **params})
    own = [counted.of_rank(rank).sent if rank < counted.ranks else None for rank in range(ranks)]
    found = f.evaluate(**whole)
    results = dict(zip(f.algorithm.outputs, found if isinstance(found, tuple) else (found,), strict=True))
    return Prepared(
        name=f"{name}: {variant}",
        kernel=f.compile(),
        outputs=tuple(results),
        given=tuple(
            {**params, **{key: f.part(key, value, rank) for key, value in arrays.items()}} for rank in range(ranks)
        ),
        expected=tuple(tuple(f.part(output, x, rank) for output, x in results.items()) for rank in range(ranks)),
        sends=tuple((sent.bytes, sent.messages) if sent else (0, 0) for sent in own),
        together=(counted.bytes, counted.messages),
    )


def file(folder: Path, ranks: int) -> Path:
    """Where the stories for so many ranks are."""
    return folder / f"{ranks}.pickle"


def write(folder: str, ranks: int, part: int, parts: int) -> None:
    """A part of the stories, for so many ranks; as users compile them, they run where their pages are told."""
    library.OPTIMISED = QUICK
    ready = [prepared(name, variant, ranks) for name, variant in list(stories.variants())[part::parts]]
    file(Path(folder), ranks).write_bytes(pickle.dumps(ready))
