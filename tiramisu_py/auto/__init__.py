"""Automatic schedules: from an algorithm to commands, which are proven, explained and printed like those of a user."""

from tiramisu_py.auto.scheduling import Automatic, auto_schedule

__all__ = ["Automatic", "auto_schedule"]
