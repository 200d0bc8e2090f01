"""Two algorithms, equal or not: their outputs as sums of products over sets, compared for all sizes at once."""
