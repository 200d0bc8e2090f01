"""The conditions on reductions: every term once, complete results, and combinations that are possible."""

from __future__ import annotations

from tiramisu_py.proof.reductions import (
    bits,
    grades,
    parts_of_terms,
    private_copies,
    rank_reductions,
    reductions,
    trees,
)
from tiramisu_py.proof.violations.condition import Condition, out_of_reach

PARTS_OF_TERMS = Condition("parts_of_terms", parts_of_terms.findings, parts_of_terms.SENTENCES)
RANK_REDUCTIONS = Condition("rank_reductions", rank_reductions.findings, stops=out_of_reach)
REDUCTIONS = Condition("reductions", reductions.findings, reductions.SENTENCES)
BITS = Condition("bits", bits.findings)
GRADES = Condition("grades", grades.findings)
TREES = Condition("trees", trees.findings)
PRIVATE_COPIES = Condition("private_copies", private_copies.findings)
