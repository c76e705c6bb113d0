"""The list and watch protocol, and the source of events that speaks it."""
