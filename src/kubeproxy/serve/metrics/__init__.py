"""What is counted and measured, and the HTTP server that shows it.

Happenings and requests come in as values; text for Prometheus goes out when somebody asks. Nothing
here decides anything: a daemon without metrics would proxy just the same.
"""
