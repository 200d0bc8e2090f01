"""Graphs of files: triples, as pykeen has them of UMLS and Kinships, and the pointers of WordNet's data files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tiramisu_py import graphs

#: WordNet's files, by part of speech; of adjectives, satellites are in the same file.
PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}


def graphs_of(folder: Path) -> dict[str, graphs.Graph]:
    """The graphs that are found anywhere in a folder, by name."""
    found = {}
    for train in sorted(folder.rglob("train.txt")):
        found[train.parent.name] = _of_triples(train.parent)
    for nouns in folder.rglob("data.noun"):
        found["wordnet"] = _of_wordnet(nouns.parent)
    return found


def _of_triples(folder: Path) -> graphs.Graph:
    """Lines ``head, relation, tail`` of all three parts."""
    lines = [line.split("\t") for file in ("train", "valid", "test")
             for line in (folder / f"{file}.txt").read_text().splitlines()]  # fmt: skip
    heads, relations, tails = (np.array(column) for column in zip(*lines, strict=True))
    names = np.unique(np.concatenate([heads, tails]))
    kinds, etype = np.unique(relations, return_inverse=True)
    return _sorted(np.searchsorted(names, heads), np.searchsorted(names, tails), etype, np.zeros(len(names), int),
                   len(kinds), 1)  # fmt: skip


def _of_wordnet(folder: Path) -> graphs.Graph:
    """Synsets, and what they point to: nodes are typed by part of speech, edges by the symbol of the pointer."""
    places: dict[tuple[str, str], int] = {}
    pointers: list[tuple[int, tuple[str, str], str]] = []
    ntype: list[int] = []
    for kind, (part, file) in enumerate(PARTS.items()):
        for fields in _lines(folder / f"data.{file}"):
            at = places[part, fields[0]] = len(places)
            ntype.append(kind)
            first = 4 + 2 * int(fields[3], 16)
            for k in range(first + 1, first + 1 + 4 * int(fields[first]), 4):
                symbol, offset, to = fields[k : k + 3]
                pointers.append((at, (to.replace("s", "a"), offset), symbol))
    kinds, etype = np.unique([symbol for *_, symbol in pointers], return_inverse=True)
    src, dst = np.array([at for at, *_ in pointers]), np.array([places[to] for _, to, _ in pointers])
    return _sorted(src, dst, etype, np.array(ntype), len(kinds), len(PARTS))


def _lines(file: Path) -> Iterator[list[str]]:
    """The fields of each line of data; the licence is in lines that begin with blanks."""
    for line in file.read_text(encoding="latin-1").splitlines():
        if not line.startswith(" "):
            yield line.partition(" | ")[0].split()


def _sorted(src: Any, dst: Any, etype: Any, ntype: Any, etypes: int, ntypes: int) -> graphs.Graph:
    """A graph whose edges are in the order of their types, as its peers want them."""
    order = np.argsort(etype, kind="stable")
    return graphs.Graph(
        src[order], dst[order], etype=etype[order], ntype=ntype, nodes=len(ntype), etypes=etypes, ntypes=ntypes
    )
