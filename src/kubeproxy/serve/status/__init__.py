"""What the running daemon does, for people: as JSON over HTTP, and as a page in the browser.

`history` takes note while the daemon runs; everything else is loaded when somebody asks. Nothing
here changes anything.
"""
