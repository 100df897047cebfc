from devrt.testing.conformance import conform as conform
from devrt.testing.imports import import_findings as import_findings
