"""Files as a memory: the host code that copies between arrays and files, and the runtime under it."""
