"""Netlink as bytes: messages and attributes, in both directions.

Comes in: values. Goes out: bytes, and back. Never here: sockets (those are in `linux`).
"""
