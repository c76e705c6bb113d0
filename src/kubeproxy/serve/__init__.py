"""What the daemon shows: health, metrics, status, and events for the cluster."""
