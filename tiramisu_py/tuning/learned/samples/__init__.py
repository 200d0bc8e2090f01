"""Samples: which point at which sizes is measured next, how long it takes, and where that is kept."""
