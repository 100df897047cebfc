"""Reverse mode: from the cotangents of a function's results to those of what it was given.

A function is traced, and its operations are walked from the last to the first; each has a rule that
says what the cotangents of its operands are. What the rules emit are operations like any others, so
that gradients have gradients.
"""
