"""Declarations, checked against the algorithm; the soundness of the algorithm itself."""
