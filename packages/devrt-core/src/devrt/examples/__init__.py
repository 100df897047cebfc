"""Programs to read and to copy, in public names only: ``python -m devrt.examples.digits``."""

__all__: list[str] = []
