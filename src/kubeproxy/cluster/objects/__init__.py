"""Kubernetes objects as they arrive: only the fields that the proxy reads, decoded once.

Comes in: JSON bytes of the API server, or documents of a manifest. Goes out: frozen values.
Never here: what the fields mean on this node (that is `model`), I/O, logging.
"""
