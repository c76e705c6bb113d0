"""What clients notice when endpoints, nodes or the proxy itself fail: `make bench-outage`."""
