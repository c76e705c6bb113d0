"""The loop: events of the cluster become syncs of the dataplanes."""
