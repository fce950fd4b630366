"""Sent as text to the engine's Python: the standard library and what the engine itself has, Python 3.9.

`side.py` goes with each of them.
"""
