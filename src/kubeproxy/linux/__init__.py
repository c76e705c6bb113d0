"""The only sockets, subprocesses and /proc files that speak to the kernel.

Comes in: bytes or names. Goes out: what the kernel answered, or a KernelError that names the
operation and the object. Never here: what the bytes mean for a service.
"""
