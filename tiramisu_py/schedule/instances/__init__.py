"""Commands that decide which statements there are: separate_at, separate_cases, inline, partition."""
