"""Views for people: pseudocode, pictures, and facts of kernels before they run."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.view.channels import channels_picture
    from tiramisu_py.view.cost_counts import schedule_cost
    from tiramisu_py.view.explanation import Explanation, explained
    from tiramisu_py.view.fitted_costs import FittedCount, SymbolicCost, symbolic_cost
    from tiramisu_py.view.kernel_facts import AccessFacts, KernelFacts, annotated, kernel_facts
    from tiramisu_py.view.live_memory import LiveMemory
    from tiramisu_py.view.loop_nests import loop_nests
    from tiramisu_py.view.lost_bounds import lost_bounds
    from tiramisu_py.view.machine_code import InstructionCounts, MachineCode, counted_code
    from tiramisu_py.view.occupancy import Occupancy, occupancy
    from tiramisu_py.view.pictures.picture_page import Picture, side_by_side
    from tiramisu_py.view.pictures.pictured import pictured
    from tiramisu_py.view.pictures.scene import Scene
    from tiramisu_py.view.pseudocode import ReadableLoops, pseudocode, readable
    from tiramisu_py.view.schedule_cost import EmittedFindings, LevelCost, ScheduleCost

front(
    __name__,
    {
        "tiramisu_py.view.channels": "channels_picture",
        "tiramisu_py.view.cost_counts": "schedule_cost",
        "tiramisu_py.view.explanation": "Explanation, explained",
        "tiramisu_py.view.fitted_costs": "FittedCount, SymbolicCost, symbolic_cost",
        "tiramisu_py.view.kernel_facts": "AccessFacts, KernelFacts, annotated, kernel_facts",
        "tiramisu_py.view.live_memory": "LiveMemory",
        "tiramisu_py.view.loop_nests": "loop_nests",
        "tiramisu_py.view.lost_bounds": "lost_bounds",
        "tiramisu_py.view.machine_code": "InstructionCounts, MachineCode, counted_code",
        "tiramisu_py.view.occupancy": "Occupancy, occupancy",
        "tiramisu_py.view.pictures.picture_page": "Picture, side_by_side",
        "tiramisu_py.view.pictures.pictured": "pictured",
        "tiramisu_py.view.pictures.scene": "Scene",
        "tiramisu_py.view.pseudocode": "ReadableLoops, pseudocode, readable",
        "tiramisu_py.view.schedule_cost": "EmittedFindings, LevelCost, ScheduleCost",
    },
)

__all__ = [
    "AccessFacts",
    "EmittedFindings",
    "Explanation",
    "FittedCount",
    "InstructionCounts",
    "KernelFacts",
    "LevelCost",
    "LiveMemory",
    "MachineCode",
    "Occupancy",
    "Picture",
    "ReadableLoops",
    "ScheduleCost",
    "Scene",
    "SymbolicCost",
    "annotated",
    "channels_picture",
    "counted_code",
    "explained",
    "kernel_facts",
    "loop_nests",
    "lost_bounds",
    "occupancy",
    "pictured",
    "pseudocode",
    "readable",
    "schedule_cost",
    "side_by_side",
    "symbolic_cost",
]
