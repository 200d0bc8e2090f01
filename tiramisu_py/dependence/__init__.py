"""Who touches which place, when, and in what order."""
