"""`make demo`: a node, its pods and clients in namespaces, the real proxy, and traffic to watch.

Every sentence that the demo says about what happened is checked first; one that does not hold is
shown as such, and the demo then ends with exit code 1.
"""
