"""PolyBench's kernels beside C: as it stands, and as Pluto's rules transform it."""
