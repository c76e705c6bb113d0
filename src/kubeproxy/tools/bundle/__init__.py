"""`kube-proxy bundle`."""
