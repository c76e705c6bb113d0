"""The forwarding table and what was written for a service, over HTTP, for people and programs.

Requests come in as values, and answers go out piece by piece. Nothing here changes anything, and
nothing of it is loaded before somebody asks.
"""
