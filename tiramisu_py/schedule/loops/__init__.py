"""Commands on loops: split, tile, reorder, skew, shift; tags; order."""
