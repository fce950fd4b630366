"""Finds out: launches, engines, real loads, logs, hardware. Knows nothing of playbooks or screens."""
