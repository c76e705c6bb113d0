"""A drop-in kube-proxy."""
