"""Passes on loops: count, peel, split, tile, unroll."""
