"""Decides: from what the engine probe found to causes, fixes and proofs. Knows nothing of screens."""
