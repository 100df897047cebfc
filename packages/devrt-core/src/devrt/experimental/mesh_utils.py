"""Arrays of devices for meshes, laid out by their position in the hardware."""

from __future__ import annotations

from devrt.sharding import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
