"""What index expressions are, which values they can have, and what they fold to."""
