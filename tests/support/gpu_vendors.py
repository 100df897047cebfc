"""What differs between the vendors whose devices are simulated."""

from typing import NamedTuple


class Vendor(NamedTuple):
    platform: str
    image: str  # the format
    formats: str
    architecture: str  # as an error says it; of simulated ones HIP does not tell it
    shared_bytes: int  # that a block may have
    invalid: str  # the driver's error for an image that is none
    has_sizes: bool  # whether the driver tells the sizes of parameters


VENDORS = (
    Vendor(
        "cuda", "cubin", "cuda, ptx, cubin", ", sm_90", 232448, "CUDA_ERROR_INVALID_IMAGE", True
    ),
    Vendor("rocm", "hsaco", "hip, hsaco", "", 65536, "hipErrorInvalidImage", False),
)
