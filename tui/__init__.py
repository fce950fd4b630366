"""Shows: the command line and the Textual console."""
