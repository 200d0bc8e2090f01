"""The search for the best schedule of a space: legal points only, measured one at a time, and every result kept."""

from tiramisu_py.tuning.search.searching import tune
from tiramisu_py.tuning.search.space import powers_of_two
from tiramisu_py.tuning.search.tuned import Tuned, TunedPoint

__all__ = ["Tuned", "TunedPoint", "powers_of_two", "tune"]
