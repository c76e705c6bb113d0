"""HTTP to an API server: where it is, who we are, and what it answers."""
