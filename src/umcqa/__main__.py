"""``python -m umcqa``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it still loads is met as quietly as later."""
    try:
        from umcqa.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
