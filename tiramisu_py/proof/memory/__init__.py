"""Conditions on memory: every read sees its value; places exist, are in reach, and free of races."""
