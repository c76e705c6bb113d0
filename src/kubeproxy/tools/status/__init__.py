"""`kube-proxy status`."""
