"""Runs beside vLLM under the user's Python: standard library only, 3.9 and newer, shipped as one zip over stdin."""
