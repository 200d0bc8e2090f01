"""Input-aware tuning: samples of legal points at many sizes, a model of their times, and the point for each call.

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, chapter 4.
"""

from tiramisu_py.tuning.input_aware.choices import Choice, Choices
from tiramisu_py.tuning.input_aware.collecting import Collected
from tiramisu_py.tuning.input_aware.fitting import FitReport
from tiramisu_py.tuning.input_aware.input_aware import InputAware, input_aware

__all__ = ["Choice", "Choices", "Collected", "FitReport", "InputAware", "input_aware"]
