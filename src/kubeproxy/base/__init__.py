"""Values and texts that every package may use: addresses, errors, the log. Knows none of ours."""
