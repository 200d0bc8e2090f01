"""The processor's caches, memory nodes, first touch."""
