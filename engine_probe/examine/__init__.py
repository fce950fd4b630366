"""Examinations: small tests of the place where an engine runs, without loading a model.

`scripts/` runs under the engine's own Python; the rest runs here.
"""
