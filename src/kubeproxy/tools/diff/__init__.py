"""`kube-proxy diff`."""
