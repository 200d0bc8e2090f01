"""Vector expressions in C."""
