"""From entries of the forwarding table to what the kernel understands; one folder a mode.

Comes in: the table and what changed in it. Goes out: bytes or text for the kernel.
Never here: Kubernetes objects, the model, another mode.
"""
