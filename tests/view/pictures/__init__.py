"""Pictures of schedules: what is in them, against runs by hand, and how a browser shows them."""
