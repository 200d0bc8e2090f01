"""Layers II and III: the scheduled program as one immutable value."""
