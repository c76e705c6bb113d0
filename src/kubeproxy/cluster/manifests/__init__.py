"""The source of events that reads a directory of manifests."""
