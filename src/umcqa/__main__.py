"""``python -m umcqa``."""

from umcqa.cli import main

if __name__ == "__main__":
    main()
