"""Views for people: pseudocode, pictures, and facts of kernels before they run."""

from tiramisu_py.view.channels import channels_picture
from tiramisu_py.view.kernel_facts import AccessFacts, KernelFacts, annotated, kernel_facts
from tiramisu_py.view.occupancy import Occupancy, occupancy
from tiramisu_py.view.pseudocode import ReadableLoops, pseudocode, readable

__all__ = [
    "AccessFacts",
    "KernelFacts",
    "Occupancy",
    "ReadableLoops",
    "annotated",
    "channels_picture",
    "kernel_facts",
    "occupancy",
    "pseudocode",
    "readable",
]
