"""Questions about packets in people's words, and the answers: what `explain` says, live or not."""
