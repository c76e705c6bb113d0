"""What became of connections to endpoints that fail: for metrics, status, trace and events.

Observations come in. Nothing here decides anything: a daemon without it would heal just the same.
"""
