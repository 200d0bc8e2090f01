"""The table of what vector instructions cost by processor, from LLVM's models."""
