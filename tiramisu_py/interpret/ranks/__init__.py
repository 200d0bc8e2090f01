"""Ranks in one process."""
