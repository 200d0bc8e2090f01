"""What a run makes of all tests, and what that takes: turns, rooms that changed, budgets."""
