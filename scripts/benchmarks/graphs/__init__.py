"""What layers of relational graph networks are made of, beside what a careful user writes in PyTorch."""
