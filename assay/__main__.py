"""The `assay` script, and `python -m assay`."""

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported ends it without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from assay.cli import main as run

    run()


if __name__ == "__main__":
    main()
