"""What a backend's own tests can hold it to."""

from devrt.testing.imports import import_findings

__all__ = ["import_findings"]
