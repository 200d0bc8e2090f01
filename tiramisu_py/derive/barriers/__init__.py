"""What the completion adds: the barriers that kernels need, and what starts, combines and merges partial results."""
