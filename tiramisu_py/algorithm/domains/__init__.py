"""From the user's expressions to isl sets and back: domains, affine forms, reads, extents."""
