"""Colours and glyphs: the only place where either is chosen."""
