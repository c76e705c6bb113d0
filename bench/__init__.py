"""Figures for the hot paths. Never part of the tests: machines are noisy, so every figure is
printed with its conditions, and comparisons are made within one run.
"""
