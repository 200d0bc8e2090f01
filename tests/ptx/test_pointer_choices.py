"""No kernel loads through the read-only cache from an array that was chosen."""

from __future__ import annotations

import pytest

from tests.gpu.test_stories import module, variants
from tests.ptx import running
from tests.ptx.entry_points import kernel
from tests.ptx.pointer_choices import chosen_loads
from tests.selection import some
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import compile_kernels, find_cuda_compiler
from tiramisu_py.toolchain.compilers.images import Architecture

BEGIN = """.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)
{
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [a];
ld.param.u64 %rd3, [b];
ld.param.u64 %rd7, [c];
cvta.to.global.u64 %rd2, %rd1;
cvta.to.global.u64 %rd4, %rd3;
cvta.to.global.u64 %rd8, %rd7;
st.global.f32 [%rd4], %f1;
"""


@pytest.mark.parametrize(
    ("body", "is_choice"),
    [
        ("add.s64 %rd5, %rd2, 4;\nld.global.nc.f32 %f1, [%rd5+8];", False),
        ("selp.b64 %rd5, %rd2, %rd4, %p1;\nadd.s64 %rd6, %rd5, 4;\nld.global.nc.f32 %f1, [%rd6];", True),
        ("mov.u64 %rd5, %rd2;\n@%p1 mov.u64 %rd5, %rd4;\nld.global.nc.v2.f32 {%f1, %f2}, [%rd5];", True),
        ("L:\nld.global.nc.f32 %f1, [%rd5];\nmov.u64 %rd5, %rd2;\nadd.s64 %rd5, %rd5, %rd4;\nbra L;", True),
        ("selp.b64 %rd5, %rd2, %rd4, %p1;\nld.global.f32 %f1, [%rd5];", False),
        ("selp.b64 %rd5, %rd2, %rd8, %p1;\nld.global.nc.f32 %f1, [%rd5];", False),  # neither is written
        ("selp.b64 %rd5, %rd2, %rd8, %p1;\nld.global.nc.f32 %f1, [%rd5];\nred.global.add.f32 [%rd8+4], %f1;", True),
        ("ld.global.u64 %rd5, [%rd4];\nadd.s64 %rd6, %rd2, %rd5;\nld.global.nc.f32 %f1, [%rd6];", False),
    ],
)
def test_an_address_that_may_be_in_two_arrays_is_found(body: str, is_choice: bool) -> None:
    assert bool(chosen_loads(f"{BEGIN}{body}\nret;\n}}\n")) == is_choice


@pytest.mark.parametrize("architecture", [75, pytest.param(90, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "variant"), some(variants(), lambda each: each[0] == "gpu/sums"))
def test_no_kernel_of_a_story_loads_from_an_array_that_was_chosen(name: str, variant: str, architecture: int) -> None:
    if running.missing():
        pytest.skip(running.missing())
    f = module(name).VARIANTS[variant]()
    cache = open_cache()
    compiler = find_cuda_compiler(cache)
    compiled = compile_kernels(cache, compiler, f"{f.name}.cu", f.source(), [Architecture(architecture, virtual=True)])
    assert chosen_loads(compiled.images[0].content.decode()) == []


def test_what_loads_such_a_kernel_on_the_machine_has_failed() -> None:
    text = kernel("selp.b64 %rd5, %rd0, %rd1, %p1;\nld.global.nc.f32 %f1, [%rd5];\nst.global.f32 [%rd1], %f1;", 2)
    told = running.run(["-c", f"from tests.ptx.entry_points import gpu\ngpu().load({text!r})"])
    assert told.returncode == 1
    assert told.stderr == "k: ld.global.nc.f32 %f1, [%rd5];: one of p0, p1"
