"""`kube-proxy trace`: new connections of services, live."""
