"""Kernel settings that the configuration asks for: `wanted` says which, `apply` sets them."""
