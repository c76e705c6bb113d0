"""What a change would do: two sides, probe packets, and what clients would notice. No I/O."""
