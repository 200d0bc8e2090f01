"""Figures by which candidates are ranked: accesses, dependences, and the work of a value."""
