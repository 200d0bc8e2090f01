"""Operations of the host on GPUs, and its communication with other ranks."""
