"""Empty: the warm process looks only for a cache to clear."""
