"""Graphs of files, as the benchmarks read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.graphs.files import graphs_of


def test_triples_and_pointers_are_edges_sorted_by_type(tmp_path: Path) -> None:
    """Nodes are numbered by name; in WordNet by their places in the files of nouns, verbs, adjectives and adverbs."""
    (tmp_path / "small").mkdir()
    for part, lines in (("train", "b\tlikes\tc\na\thas\tb\n"), ("valid", "c\thas\ta\n"), ("test", "a\tlikes\ta\n")):
        (tmp_path / "small" / f"{part}.txt").write_text(lines)
    words = {
        "noun": "  1 a licence\n00000007 03 n 01 thing 0 002 ~ 00000009 n 0000 + 00000003 v 0101 | that | which\n"
        "00000009 03 n 02 one 0 another 0 001 @ 00000007 n 0000 | one\n",
        "verb": "00000003 03 v 01 be 0 000 01 + 08 00 | exist\n",
        "adj": "00000001 00 s 01 good 0 001 & 00000001 a 0000 | fine\n",
        "adv": "",
    }
    for name, text in words.items():
        (tmp_path / f"data.{name}").write_text(text)
    found = graphs_of(tmp_path)
    small, wordnet = found["small"], found["wordnet"]
    edges = {tuple(row) for row in np.stack([small.array(name) for name in ("src", "dst", "etype")], 1).tolist()}
    assert edges == {(1, 2, 1), (0, 1, 0), (2, 0, 0), (0, 0, 1)} and small.nodes == 3
    edges = {tuple(row) for row in np.stack([wordnet.array(name) for name in ("src", "dst", "etype")], 1).tolist()}
    assert edges == {(0, 1, 3), (0, 2, 1), (1, 0, 2), (3, 3, 0)}  # & + @ ~
    assert wordnet.array("ntype").tolist() == [0, 0, 1, 2]
