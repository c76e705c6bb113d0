"""From the command line and a config file to one effective configuration.

In come arguments and the text of a file; out come a frozen configuration, notices for the log,
and errors that name the flag or the field. Nothing here logs, and only `load` and `write` touch
files.
"""
