"""Questions about packets, and the answers: used by the daemon and by the `explain` command."""
