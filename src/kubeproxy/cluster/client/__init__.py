"""The HTTP client of an API server: its address, credentials, requests and responses."""
