"""Commands that bring producers near their consumers: compute_at, cache, slide, time_tile."""
