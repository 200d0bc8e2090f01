"""For PyTorch: functions with gradients as operators, and activations of a model in files.

Both need PyTorch: ``pip install 'tiramisu_py[interop]'``.
"""

from tiramisu_py.torch.functions import function
from tiramisu_py.torch.tensor_cache import TensorCache, offload

__all__ = ["TensorCache", "function", "offload"]
