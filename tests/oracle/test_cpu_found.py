"""Programs for cores that the fuzz and its author found, made small: each was proven and computed something else, or failed in another way."""
