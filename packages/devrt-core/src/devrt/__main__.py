"""``python -m devrt``: the command line."""

from devrt.cli import main

if __name__ == "__main__":
    main()
