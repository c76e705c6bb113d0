"""What is counted and measured, and the HTTP server that shows it.

Observations come in as values, and text for Prometheus goes out on request. Nothing here decides
anything: a daemon without metrics would proxy just the same.
"""
