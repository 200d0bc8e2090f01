"""The policy of a temporary's memory: on which memory nodes of the machine its pages are."""

from __future__ import annotations

from enum import Enum

from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass


class Policy(Enum):
    """Where the pages of a temporary are.

    LOCAL: fresh pages, each on the node of the thread that first writes to it. INTERLEAVE: cyclically on all nodes.
    BIND: all on one node.
    """

    LOCAL = "local"
    INTERLEAVE = "interleave"
    BIND = "bind"

    def __repr__(self) -> str:
        return self.name


def as_policy(given: Policy | str) -> Policy:
    """The policy given as ``tm.LOCAL`` or as "local". Raises `DeclarationError` for anything else."""
    if isinstance(given, Policy):
        return given
    names = [policy.value for policy in Policy]
    if given not in names:
        raise DeclarationError(f"{given!r} is not a policy of memory: choose one of {', '.join(names)}")
    return Policy(given)


@dataclass(frozen=True)
class Pages:
    """A policy, and for `Policy.BIND` the number of the node."""

    policy: Policy
    node: int | None = None

    def __str__(self) -> str:
        return self.policy.value if self.node is None else f"{self.policy.value} to node {self.node}"
