"""Any plugin with the PJRT C API, as a devrt client.

Importing this package loads its native module, and no plugin.
"""

from devrt.contract import attach

__getattr__, __dir__, __all__ = attach(__name__)
