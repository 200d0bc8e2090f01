"""What the host tells GPUs and other ranks."""
