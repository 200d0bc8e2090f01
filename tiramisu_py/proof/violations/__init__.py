"""What a condition finds, how that is said, and what would repair it."""
