"""Events of events.k8s.io/v1 about this proxy, for `kubectl get events`.

`event` has the events as values and requests, `series` counts what repeats, `recorder` sends.
Recording never waits, and nothing depends on its success.
"""
