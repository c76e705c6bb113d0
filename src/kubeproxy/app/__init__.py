"""The program: the command line, the daemon and its wiring. Only this package knows all others."""
