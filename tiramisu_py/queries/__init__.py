"""Read-only facts of computations, loops, machines and costs: what schedules are chosen by.

`facts(computation)` is where to begin. `extents`, `linear_reads`, `congruences`, ... answer one question each about a
declaration, ``f.algorithm.computations[name]``; others about the statements of a program, ``f.program``. `walk`,
`accesses` and the kinds of nodes are for expressions. What describes this machine, a compiler, or what a program costs
is for searches that measure.
"""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.algorithm.declarations import Algorithm, value_names
    from tiramisu_py.algorithm.declarations import Computation as Declared
    from tiramisu_py.algorithm.declarations import Input as DeclaredInput
    from tiramisu_py.algorithm.declare.assumptions import verify_facts
    from tiramisu_py.algorithm.domains.extents_from_arguments import extent_value, infer_params, params_of, shape_value
    from tiramisu_py.algorithm.domains.scatters import chosen_by_values, in_ranges_of_terms
    from tiramisu_py.algorithm.evaluate.drawn_arguments import SMALL
    from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments as drawn_arguments
    from tiramisu_py.algorithm.expressions import Access, Binary, Call, Cast, Const, Select, as_expr
    from tiramisu_py.algorithm.operators import Determinism
    from tiramisu_py.algorithm.traversal import accesses, iterators, kinds, rewrite, walk
    from tiramisu_py.algorithm.types import TupleType
    from tiramisu_py.counting.amounts import Amount, Communication
    from tiramisu_py.counting.communication import communication
    from tiramisu_py.counting.work import Counter, Work
    from tiramisu_py.function.applying.as_script import as_script
    from tiramisu_py.function.handles.computations import reductions_behind
    from tiramisu_py.function.results import Emission, emission
    from tiramisu_py.function.saving.algorithms import declared_values
    from tiramisu_py.ir import ArrayArgument
    from tiramisu_py.ir.arithmetic.linear import difference, linear
    from tiramisu_py.program.command import Command
    from tiramisu_py.program.initial import initial_program
    from tiramisu_py.program.loops import LoopId, Rank
    from tiramisu_py.program.ordering import shared
    from tiramisu_py.program.program import Program
    from tiramisu_py.program.ranks.combined_reductions import not_combined
    from tiramisu_py.program.ranks.spread import axes
    from tiramisu_py.program.statement import Role, Statement
    from tiramisu_py.program.targets import Target as PartTarget
    from tiramisu_py.program.targets import ranks_of
    from tiramisu_py.proof.reductions.bits import rounds
    from tiramisu_py.queries.allowed_sizes import Room, are_allowed, part_ranges
    from tiramisu_py.queries.dependences import LoopDependence, LoopDependences, distances
    from tiramisu_py.queries.facts import ComputationFacts, LoopFacts, facts
    from tiramisu_py.queries.handles import (
        function_of,
        loop_direction,
        loop_forms,
        loop_iterators,
        shares_threads,
        statement_handle,
        unused_iterator,
        unused_word,
    )
    from tiramisu_py.queries.identity import compiler_description, device_of, machine_description, program_key, text_key
    from tiramisu_py.queries.iterations import (
        Congruence,
        Iterations,
        PositionRun,
        congruences,
        end_of,
        extent_at,
        extents,
        have_one_end,
        is_box,
        is_multiple,
        run_of_positions,
        same_points,
        same_range,
        same_values,
    )
    from tiramisu_py.queries.reads import (
        ANOTHER_ROW,
        LinearRead,
        behind,
        is_read_at_loop,
        is_read_in_place,
        linear_reads,
        meets,
        offsets,
        readers_of,
        reads_backwards,
        sources_of,
        statement_sources,
    )
    from tiramisu_py.queries.turns import TemporaryArray, bytes_in_turns
    from tiramisu_py.schedule.locality.time_halos import distances as step_distances
    from tiramisu_py.schedule.locality.time_halos import halos
    from tiramisu_py.schedule.loops.bands import permutable_band
    from tiramisu_py.toolchain.calls.numpy_arrays import ALIGNMENT
    from tiramisu_py.toolchain.compilers.cache import WITHOUT_LOCKS, Cache, digest, open_cache
    from tiramisu_py.toolchain.gpu.available_gpus import Device, as_device
    from tiramisu_py.toolchain.gpu.runtime import runtime_for
    from tiramisu_py.toolchain.kernel import bound_call
    from tiramisu_py.toolchain.machine.processor_caches import Caches, caches
    from tiramisu_py.toolchain.machine.topology import allowed_cpus
    from tiramisu_py.view.fitted_costs import SymbolicCost, symbolic_cost
    from tiramisu_py.view.occupancy import multiprocessors, occupancy

front(
    __name__,
    {
        "tiramisu_py.algorithm.declarations": "Algorithm, Computation as Declared, Input as DeclaredInput, value_names",
        "tiramisu_py.algorithm.declare.assumptions": "verify_facts",
        "tiramisu_py.algorithm.domains.extents_from_arguments": "extent_value, infer_params, params_of, shape_value",
        "tiramisu_py.algorithm.domains.scatters": "chosen_by_values, in_ranges_of_terms",
        "tiramisu_py.algorithm.evaluate.drawn_arguments": "SMALL, arguments as drawn_arguments",
        "tiramisu_py.algorithm.expressions": "Access, Binary, Call, Cast, Const, Select, as_expr",
        "tiramisu_py.algorithm.operators": "Determinism",
        "tiramisu_py.algorithm.traversal": "accesses, iterators, kinds, rewrite, walk",
        "tiramisu_py.algorithm.types": "TupleType",
        "tiramisu_py.toolchain.calls.numpy_arrays": "ALIGNMENT",
        "tiramisu_py.toolchain.gpu.available_gpus": "Device, as_device",
        "tiramisu_py.toolchain.gpu.runtime": "runtime_for",
        "tiramisu_py.toolchain.kernel": "bound_call",
        "tiramisu_py.toolchain.machine.processor_caches": "Caches, caches",
        "tiramisu_py.toolchain.machine.topology": "allowed_cpus",
        "tiramisu_py.toolchain.compilers.cache": "Cache, WITHOUT_LOCKS, digest, open_cache",
        "tiramisu_py.counting.amounts": "Amount, Communication",
        "tiramisu_py.counting.communication": "communication",
        "tiramisu_py.counting.work": "Counter, Work",
        "tiramisu_py.function.applying.as_script": "as_script",
        "tiramisu_py.function.handles.computations": "reductions_behind",
        "tiramisu_py.function.results": "Emission, emission",
        "tiramisu_py.function.saving.algorithms": "declared_values",
        "tiramisu_py.ir": "ArrayArgument",
        "tiramisu_py.ir.arithmetic.linear": "difference, linear",
        "tiramisu_py.program.command": "Command",
        "tiramisu_py.program.initial": "initial_program",
        "tiramisu_py.program.loops": "LoopId, Rank",
        "tiramisu_py.program.ordering": "shared",
        "tiramisu_py.program.program": "Program",
        "tiramisu_py.program.ranks.combined_reductions": "not_combined",
        "tiramisu_py.program.ranks.spread": "axes",
        "tiramisu_py.program.statement": "Role, Statement",
        "tiramisu_py.program.targets": "Target as PartTarget, ranks_of",
        "tiramisu_py.proof.reductions.bits": "rounds",
        "tiramisu_py.queries.allowed_sizes": "Room, are_allowed, part_ranges",
        "tiramisu_py.queries.dependences": "LoopDependence, LoopDependences, distances",
        "tiramisu_py.queries.facts": "ComputationFacts, LoopFacts, facts",
        "tiramisu_py.queries.handles": (
            "function_of, loop_direction, loop_forms, loop_iterators, shares_threads, statement_handle, "
            "unused_iterator, unused_word"
        ),
        "tiramisu_py.queries.identity": "compiler_description, device_of, machine_description, program_key, text_key",
        "tiramisu_py.queries.iterations": (
            "Congruence, Iterations, PositionRun, congruences, end_of, extent_at, extents, have_one_end, is_box, "
            "is_multiple, run_of_positions, same_points, same_range, same_values"
        ),
        "tiramisu_py.queries.reads": (
            "ANOTHER_ROW, LinearRead, behind, is_read_at_loop, is_read_in_place, linear_reads, meets, offsets, "
            "readers_of, reads_backwards, sources_of, statement_sources"
        ),
        "tiramisu_py.queries.turns": "TemporaryArray, bytes_in_turns",
        "tiramisu_py.schedule.locality.time_halos": "distances as step_distances, halos",
        "tiramisu_py.schedule.loops.bands": "permutable_band",
        "tiramisu_py.view.fitted_costs": "SymbolicCost, symbolic_cost",
        "tiramisu_py.view.occupancy": "multiprocessors, occupancy",
    },
)

__all__ = [
    "ALIGNMENT",
    "ANOTHER_ROW",
    "Access",
    "Algorithm",
    "Amount",
    "ArrayArgument",
    "Binary",
    "Cache",
    "Caches",
    "Call",
    "Cast",
    "Command",
    "Communication",
    "ComputationFacts",
    "Congruence",
    "Const",
    "Counter",
    "Declared",
    "DeclaredInput",
    "Determinism",
    "Device",
    "Emission",
    "Iterations",
    "PositionRun",
    "LinearRead",
    "LoopDependence",
    "LoopDependences",
    "LoopFacts",
    "LoopId",
    "PartTarget",
    "Program",
    "Rank",
    "Role",
    "Room",
    "SMALL",
    "Select",
    "Statement",
    "SymbolicCost",
    "TemporaryArray",
    "TupleType",
    "WITHOUT_LOCKS",
    "Work",
    "accesses",
    "allowed_cpus",
    "are_allowed",
    "as_device",
    "as_expr",
    "as_script",
    "axes",
    "behind",
    "bound_call",
    "bytes_in_turns",
    "caches",
    "chosen_by_values",
    "communication",
    "compiler_description",
    "congruences",
    "declared_values",
    "device_of",
    "difference",
    "digest",
    "distances",
    "drawn_arguments",
    "emission",
    "end_of",
    "extent_at",
    "extent_value",
    "extents",
    "facts",
    "function_of",
    "halos",
    "have_one_end",
    "in_ranges_of_terms",
    "infer_params",
    "initial_program",
    "is_box",
    "is_multiple",
    "is_read_at_loop",
    "is_read_in_place",
    "iterators",
    "kinds",
    "linear",
    "linear_reads",
    "loop_direction",
    "loop_forms",
    "loop_iterators",
    "machine_description",
    "meets",
    "multiprocessors",
    "not_combined",
    "occupancy",
    "offsets",
    "open_cache",
    "params_of",
    "part_ranges",
    "permutable_band",
    "program_key",
    "ranks_of",
    "readers_of",
    "reads_backwards",
    "reductions_behind",
    "rewrite",
    "rounds",
    "run_of_positions",
    "runtime_for",
    "same_points",
    "same_range",
    "same_values",
    "shape_value",
    "shared",
    "shares_threads",
    "sources_of",
    "statement_handle",
    "statement_sources",
    "step_distances",
    "symbolic_cost",
    "text_key",
    "unused_iterator",
    "unused_word",
    "value_names",
    "verify_facts",
    "walk",
]
