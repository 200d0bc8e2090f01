"""One generator of programs for all targets: any algorithm, any sequence of commands, on cores, GPUs and ranks."""
