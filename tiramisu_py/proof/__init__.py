"""The proof: from a program to a report."""

from tiramisu_py.proof.report import Report
from tiramisu_py.proof.theorem import check

__all__ = ["Report", "check"]
