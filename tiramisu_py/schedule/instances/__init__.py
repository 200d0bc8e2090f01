"""Commands that change the set of statements: separate_at, separate_cases, inline, partition."""
