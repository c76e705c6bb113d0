"""What the proxy tells the cluster: events of events.k8s.io/v1, for `kubectl get events`.

`event` has what can be told, `series` sums up what repeats, `wire` encodes, `recorder` sends.
Telling never waits, and nothing depends on its success.
"""
