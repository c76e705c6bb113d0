"""Questions about packets, and the answers: what `explain` says, live or not."""
