"""`kube-proxy plan`: what a change would do on a node, before it is made."""
