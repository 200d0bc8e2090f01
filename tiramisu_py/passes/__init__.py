"""Passes from loop IR to loop IR, in an order for each target."""

from tiramisu_py.passes.pipeline import PIPELINE, Pipeline, optimise
from tiramisu_py.passes.tracing import traced

__all__ = ["PIPELINE", "Pipeline", "optimise", "traced"]
