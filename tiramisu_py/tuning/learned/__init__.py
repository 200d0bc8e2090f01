"""Input-aware tuning: samples of legal points at many sizes, a model of their times, and the point for each call.

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, chapter 4.
"""

from tiramisu_py.tuning.learned.choices import Choice, Choices
from tiramisu_py.tuning.learned.fitting import FitReport
from tiramisu_py.tuning.learned.open_kernel import InputAware, input_aware
from tiramisu_py.tuning.learned.samples.collecting import Collected

__all__ = ["Choice", "Choices", "Collected", "FitReport", "InputAware", "input_aware"]
