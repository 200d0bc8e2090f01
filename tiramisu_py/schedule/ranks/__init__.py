"""Commands for ranks: distribute, blocks, exchanges."""
