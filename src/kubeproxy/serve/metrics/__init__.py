"""What is counted and measured, and the text of it for Prometheus.

Observations come in as values, and text for Prometheus goes out on request. Nothing here decides
anything: a daemon without metrics would proxy just the same.
"""
