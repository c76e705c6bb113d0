"""Figures. Never part of the tests: machines are noisy, so every figure is printed with its
conditions, and comparisons are made within one run.

`python -m bench` measures whole daemons and the data path from outside, `python -m bench.stages`
our own stages by themselves; docs/performance.md has the method.
"""
