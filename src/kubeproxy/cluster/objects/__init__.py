"""Kubernetes objects: decoded from JSON or YAML into frozen values, with the fields that we read.

What the fields mean on this node is in `model`.
"""
