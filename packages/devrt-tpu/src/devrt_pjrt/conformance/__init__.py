"""Cases of the conformance kit about the C API of a PJRT library itself: level ``c_api``."""
