"""For PyTorch: functions with gradients, activations of a model in files, tensors that GPUs read in place.

All need PyTorch: ``pip install 'tiramisu_py[interop]'``.
"""

from tiramisu_py.torch.functions import function
from tiramisu_py.torch.offloading import offload
from tiramisu_py.torch.placement import Placement, TensorKind, placement
from tiramisu_py.torch.tensor_cache import StepRecord, TensorCache
from tiramisu_py.torch.unified_device import register_unified_device
from tiramisu_py.torch.unified_tensors import unified

__all__ = [
    "Placement",
    "StepRecord",
    "TensorCache",
    "TensorKind",
    "function",
    "offload",
    "placement",
    "register_unified_device",
    "unified",
]
