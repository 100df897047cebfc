"""What pulls bytes from another process: a module for each side, with ``Server`` and ``Puller``."""
