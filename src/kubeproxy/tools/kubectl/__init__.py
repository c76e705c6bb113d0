"""`kubectl kubeproxy`: our commands for a cluster, from wherever `kubectl` works.

`kubectl` runs our own commands in the proxies' pods, with the user's kubeconfig and rights. Here
their JSON is read, put together, and shown with the names of pods. Nothing here listens, and
nothing reads a credential.
"""
