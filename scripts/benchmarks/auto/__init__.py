"""Automatic schedules beside those by hand and none: the stories of `examples/cpu` and `examples/apps`."""
