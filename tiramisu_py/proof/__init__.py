"""The proof: from a program to a report."""

from tiramisu_py.proof.budget import Budget
from tiramisu_py.proof.report import Report
from tiramisu_py.proof.theorem import check, given_up

__all__ = ["Budget", "Report", "check", "given_up"]
