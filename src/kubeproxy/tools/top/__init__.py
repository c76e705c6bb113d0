"""`kube-proxy top`."""
