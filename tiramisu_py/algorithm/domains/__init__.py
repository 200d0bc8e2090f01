"""From what the user writes to isl and back: domains, affine forms, reads, extents."""
