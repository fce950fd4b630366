"""The console script: Ctrl-C ends it quietly from its first moment on, also while it is still being imported."""

INTERRUPTED = 130


def main() -> None:
    """Ends the process."""
    import os  # noqa: PLC0415 -- here and below: nothing comes before the handler

    try:
        import signal  # noqa: PLC0415

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
        from tui.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    run()
