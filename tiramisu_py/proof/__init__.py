"""The proof: from a program to a report."""

from tiramisu_py.proof.check import check
from tiramisu_py.proof.report import Report

__all__ = ["Report", "check"]
