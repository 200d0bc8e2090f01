"""The C of tiles: compiled for a processor that has them, called where this machine has them, refused elsewhere."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import STRICT
from tests.programs import matrix_tiles as mt
from tests.programs.matrix_tiles import i0
from tiramisu_py import interpret

HERE = {"amx_tile", "amx_int8", "amx_bf16"} <= set(tm.target().features)
X86 = any(name in tm.target().features for name in ("sse3", "x86-64-v2"))
needs_amx = pytest.mark.skipif(not HERE, reason="this machine's processor (or the one that stands for it) has no AMX")
SIZES = ((64, 64, 128), (1, 1, 1), (70, 37, 200), (33, 65, 129), (32, 32, 64))


@pytest.fixture(scope="module")
def bytes_kernel():
    f, C = mt.product()
    C.update.parallelize(i0)
    return f, f.compile()


@needs_amx
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_bytes_are_those_of_numpy(bytes_kernel, size):
    _, kernel = bytes_kernel
    n, m, terms = size
    a, b = mt.drawn(tm.uint8, (n, terms), 1), mt.drawn(tm.int8, (terms, m), 2)
    np.testing.assert_array_equal(kernel(a, b), mt.multiplied(a, b), strict=True)


@needs_amx
@pytest.mark.parametrize(("first", "second"), [(tm.uint8, tm.uint8), (tm.int8, tm.uint8), (tm.int8, tm.int8)], ids=str)
def test_all_signs_of_bytes_are_exact(first, second):
    f, _ = mt.product(first, second, across=1)
    a, b = mt.drawn(first, (17, 130), 3), mt.drawn(second, (130, 33), 4)
    np.testing.assert_array_equal(f.compile()(a, b), mt.multiplied(a, b), strict=True)


@needs_amx
@pytest.mark.parametrize("scale", [1, 1e-20, 1e-19, 3e18])
def test_products_of_bfloat16_have_the_bits_of_the_interpreter(scale):
    f, _ = mt.product(tm.bfloat16, tm.bfloat16, tm.float32, across=1)
    kernel = f.compile()
    a, b = (
        (mt.drawn(tm.float32, shape, seed) * scale).astype(tm.bfloat16.numpy)
        for seed, shape in ((5, (16, 64)), (6, (64, 16)))
    )
    expected = np.zeros((16, 16), np.float32)
    interpret.run(kernel.function, {"A": a.copy(), "B": b.copy(), "C": expected}, {"N": 16, "M": 16, "K": 64})
    np.testing.assert_array_equal(kernel(a, b).view(np.uint32), expected.view(np.uint32))


@pytest.mark.skipif(not X86, reason="tiles are for x86")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_source_compiles_without_warnings_for_a_processor_with_tiles(tmp_path, compiler):
    f, C = mt.product()
    C.update.parallelize(i0)
    for name, text in f.source(target="sapphirerapids").items():
        (tmp_path / name).write_text(text)
    command = [compiler, "-march=sapphirerapids", "-O1", "-std=c11", *STRICT, "-Wno-unknown-pragmas", "-c", "product.c"]
    try:
        made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {compiler}: apt-get install {compiler}")
    assert made.returncode == 0, made.stderr


@pytest.mark.skipif(not X86, reason="tiles are for x86")
def test_a_processor_without_tiles_is_refused_by_name():
    f, _ = mt.product()
    with pytest.raises(tm.ToolchainError) as error:
        f.compile(target="x86-64-v3")
    assert str(error.value) == (
        'product is tensorized with "amx", and x86-64-v3 has no AMX_TILE, AMX_INT8: compile it for a processor that '
        'does, target="sapphirerapids", or leave tensorize out'
    )


def test_instructions_are_those_of_the_types():
    wanted = {
        (tm.uint8, tm.uint8): "tdpbuud", (tm.uint8, tm.int8): "tdpbusd", (tm.int8, tm.uint8): "tdpbsud",
        (tm.int8, tm.int8): "tdpbssd", (tm.bfloat16, tm.bfloat16): "tdpbf16ps",
    }  # fmt: skip
    for (first, second), instruction in wanted.items():
        total = tm.float32 if first.is_float else tm.int32
        text = mt.product(first, second, total, across=1)[0].source()["product.c"]
        assert f"TM_TILE_PRODUCT({instruction}, 0, 1, 2)" in text
        others = set(wanted.values()) - {instruction}
        assert not any(f"({other}," in text for other in others)


def test_tiles_are_configured_once_for_each_thread_and_released():
    f, C = mt.product()
    C.update.parallelize(i0)
    text = f.source()["product.c"]
    assert text.count("TM_TILES_BEGIN()") == text.count("TM_TILES_END()") == 1
    assert text.index("omp parallel for") < text.index("TM_TILES_BEGIN()")


@pytest.mark.skipif(not X86, reason="tiles are for x86")
def test_only_versions_with_tiles_need_them():
    def scheduled(cpu: tm.Target) -> tm.Function:
        return mt.product(tensorized="amx_int8" in cpu.features, across=1)[0]

    processors = ["x86-64-v3", "sapphirerapids"]
    plain = tm.compile_versions(lambda _: mt.product(tensorized=False)[0], processors)
    assert needs_of(tm.compile_versions(scheduled, processors)) == {"AMX_TILE", "AMX_INT8"}
    assert needs_of(plain) == set()


def needs_of(kernel: tm.Kernel) -> set[str]:
    """The instruction sets of AMX that the first version needs; the last one needs none."""
    first, last = kernel.choice.every
    assert not any("AMX" in name for name in last.needs)
    return {name for name in first.needs if "AMX" in name}
