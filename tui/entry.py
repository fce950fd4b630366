"""The console script: Ctrl-C ends it quietly from its first moment on, also while it is still being imported."""

INTERRUPTED = 130
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Python's own 700 make a quick command look through all that it imports, again and again: a tenth of its time."""


def main() -> None:
    """Ends the process."""
    import os  # noqa: PLC0415 -- here and below: nothing comes before the handler

    try:
        import signal  # noqa: PLC0415

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
        import gc  # noqa: PLC0415

        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 10, 10)
        from tui.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    run()
