"""What candidates are ranked by: accesses, dependences, and the work of a value."""
