"""The subcommands: arguments in, exit code out. What goes wrong is raised and told by `cli`."""
