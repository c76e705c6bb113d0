"""The status of the running daemon: as JSON and text over HTTP, and as a page in the browser.

The daemon makes a `State`; pure functions turn it into the values of `wire`, which are rendered as
JSON, HTML (`web`) and, by the tools, as text. Only `history` works while the daemon is not asked;
most of the rest is loaded with the first request. Nothing here changes anything.
"""
