"""From the command line and a config file to one effective configuration.

Input are arguments and the text of a file; output are a frozen configuration, notices for the log,
and errors that name the flag or the field. Only `load` reads and writes files.
"""
