"""Machines that are not this one: trees like /sys, and the C text that asks the headers about them."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

C = """
#include "tm_numa.h"
#include "tm_threads.h"

int order(const char *root, uint64_t mask, const tm_pinning *how, int threads, int *cpus, char *words);
int order(const char *root, uint64_t mask, const tm_pinning *how, int threads, int *cpus, char *words) {
  const tm_topology known = tm_read_topology(root);
  tm_cpus allowed = {{(unsigned long)mask}};
  tm_pins pins = {.threads = threads};
  int *const order = malloc(sizeof(int) * (size_t)(2 * known.count + how->count + 1));
  const int count = tm_order_cpus(&known, &allowed, how, threads, order, &pins);
  for (int t = 0; t < threads; t++)
    cpus[t] = count == 0 ? -1 : order[how->policy == TM_PIN_SPREAD ? t * count / threads : t % count];
  memcpy(words, pins.words, sizeof pins.words);
  free(order);
  free(known.cpu);
  return pins.fault;
}

/* The policy of fresh pages, as the kernel has it; minus the error number where it does not say. */
int policy_of_pages(int policy, int node, int64_t bytes);
int policy_of_pages(int policy, int node, int64_t bytes) {
  enum { OF_ADDRESS = 2 };
  int found = -1000;
  TM_PAGES char *const pages = tm_map_pages(bytes, policy, node);
  if (pages == NULL) return -2000;
  if (syscall(SYS_get_mempolicy, &found, NULL, 0UL, pages, OF_ADDRESS) != 0) return -1;
  pages[bytes - 1] = 1;
  return found;
}

int no_node(int node, char *words);
int no_node(int node, char *words) { return tm_no_node(node, words, 200) != NULL; }
"""


class Pinning(ctypes.Structure):
    """`tm_pinning`."""

    _fields_ = (
        ("policy", ctypes.c_int), ("node", ctypes.c_int), ("turn", ctypes.c_int), ("turns", ctypes.c_int),
        ("cpus", ctypes.POINTER(ctypes.c_int)), ("count", ctypes.c_int),
    )  # fmt: skip


POLICIES = ("close", "spread", "node", "list")


def write_headers(folder: Path) -> None:
    """The headers of the runtime, for C text of a test."""
    for name in ("tm_numa.h", "tm_threads.h", "tm_runtime.h"):
        (folder / name).write_text(resources.files("tiramisu_py.backends.c").joinpath(name).read_text())


def library(folder: Path, *flags: str) -> ctypes.CDLL:
    """`C`, compiled with every warning an error."""
    write_headers(folder)
    (folder / "asked.c").write_text(C)
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-fPIC", "-shared", *flags]
    done = subprocess.run(
        [*command, "asked.c", "-o", "asked.so"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "asked.so"))


def machine(folder: Path, cores: Sequence[Sequence[int]], nodes: dict[int, str]) -> Path:
    """A tree like /sys/devices/system: the cpus of each core, and those of each memory node."""
    everything = ",".join(str(cpu) for core in cores for cpu in core)
    (folder / "cpu").mkdir(parents=True)
    (folder / "cpu" / "present").write_text(f"{everything}\n")
    for core in cores:
        for cpu in core:
            own = folder / "cpu" / f"cpu{cpu}" / "topology"
            own.mkdir(parents=True)
            (own / "thread_siblings_list").write_text(",".join(map(str, core)) + "\n")
    for number, cpus in nodes.items():
        (folder / "node" / f"node{number}").mkdir(parents=True)
        (folder / "node" / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
        (folder / "node" / f"node{number}" / "meminfo").write_text(f"Node {number} MemTotal:  {number + 1}024 kB\n")
    if nodes:
        (folder / "node" / "online").write_text(",".join(map(str, nodes)) + "\n")
        (folder / "node" / "has_memory").write_text(",".join(map(str, nodes)) + "\n")
    return folder


def two_sockets(folder: Path) -> Path:
    """Two nodes of two cores with two hardware threads each: cpus 0 and 4, 1 and 5 on node 0; 2 and 6, 3 and 7 on 1."""
    return machine(folder, [(0, 4), (1, 5), (2, 6), (3, 7)], {0: "0-1,4-5", 1: "2-3,6-7"})


def asked(
    loaded: ctypes.CDLL, root: Path, policy: str, threads: int, *, mask: int = 0xFF, node: int = -1, turn: int = 0,
    turns: int = 1, cpus: Sequence[int] = (),
) -> list[int] | str:  # fmt: skip
    """The cpu of each thread, or what is wrong."""
    held = (ctypes.c_int * len(cpus))(*cpus)
    how = Pinning(POLICIES.index(policy), node, turn, turns, ctypes.cast(held, ctypes.POINTER(ctypes.c_int)), len(cpus))
    found, words = (ctypes.c_int * threads)(), ctypes.create_string_buffer(256)
    order = loaded.order
    order.argtypes = [
        ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(Pinning), ctypes.c_int, ctypes.POINTER(ctypes.c_int),
        ctypes.c_char_p,
    ]  # fmt: skip
    if order(str(root).encode(), mask, ctypes.byref(how), threads, found, words):
        return words.value.decode()
    return list(found)
