"""Automatic schedules: from an algorithm to commands, which are proven, explained and printed like those of a user."""

from tiramisu_py.auto.automatic import Automatic
from tiramisu_py.auto.scheduling import auto_schedule

__all__ = ["Automatic", "auto_schedule"]
