"""`kube-proxy services`."""
