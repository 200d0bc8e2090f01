"""Passes: loop IR to loop IR, for each target in its order."""

from tiramisu_py.passes.pipeline import PIPELINE, Pipeline, optimise
from tiramisu_py.passes.tracing import traced

__all__ = ["PIPELINE", "Pipeline", "optimise", "traced"]
