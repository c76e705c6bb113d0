"""`kube-proxy` in a shell: completion of its command lines, and its manual page."""
