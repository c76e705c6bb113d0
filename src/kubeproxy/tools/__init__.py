"""The subcommands beside the daemon: command, logic and view of each together."""
