"""The numbers of the schedules in `examples/cpu` and `examples/apps`, beside the ones that these derive or state."""
