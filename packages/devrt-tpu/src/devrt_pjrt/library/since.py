"""What came into the PJRT C API when: the one table that calls and errors go by.

Source: the C API's own change log. Functions and types that are not named here are as old as the
oldest version that devrt takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["BROKEN_MINORS", "FEATURES", "FUNCTIONS", "MAJOR", "MINIMUM_MINOR", "TYPES", "since"]

MAJOR = 0
MINIMUM_MINOR = 54
BROKEN_MINORS = frozenset({56})
"""Versions whose table has its functions in another order: the next one took it back."""

FUNCTIONS: Mapping[str, int] = MappingProxyType(
    {
        "PJRT_Buffer_CopyRawToHost": 57,
        "PJRT_AsyncHostToDeviceTransferManager_Destroy": 60,
        "PJRT_AsyncHostToDeviceTransferManager_TransferData": 60,
        "PJRT_Client_CreateBuffersForAsyncHostToDevice": 60,
        "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer": 62,
        "PJRT_AsyncHostToDeviceTransferManager_Device": 62,
        "PJRT_AsyncHostToDeviceTransferManager_BufferCount": 62,
        "PJRT_AsyncHostToDeviceTransferManager_BufferSize": 62,
        "PJRT_AsyncHostToDeviceTransferManager_SetBufferError": 62,
        "PJRT_AsyncHostToDeviceTransferManager_AddMetadata": 62,
        "PJRT_Client_DmaMap": 67,
        "PJRT_Client_DmaUnmap": 67,
        "PJRT_Client_CreateUninitializedBuffer": 69,
        "PJRT_Client_UpdateGlobalProcessInfo": 73,
        "PJRT_TopologyDescription_Deserialize": 75,
        "PJRT_Client_CreateAliasBuffer": 77,
        "PJRT_Client_FulfillAliasBuffer": 77,
        "PJRT_LoadedExecutable_GetDeviceAssignment": 79,
        "PJRT_Client_CreateErrorBuffer": 82,
        "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral": 83,
        "PJRT_Buffer_CopyRawToHostFuture": 84,
        "PJRT_Device_PoisonExecution": 85,
        "PJRT_Device_CreateAsyncTrackingEvent": 86,
        "PJRT_AsyncTrackingEvent_Destroy": 86,
        "PJRT_Executable_GetCompileOptions": 87,
        "PJRT_Buffer_DonateWithControlDependency": 88,
        "PJRT_Event_Create": 89,
        "PJRT_Event_Set": 89,
        "PJRT_Device_GetAttributes": 92,
        "PJRT_Client_Load": 95,
        "PJRT_LoadedExecutable_AddressableDeviceLogicalIds": 96,
        "PJRT_Buffer_Bitcast": 98,
        "PJRT_Error_ForEachPayload": 99,
        "PJRT_TopologyDescription_Fingerprint": 101,
        "PJRT_Executable_ParameterMemoryKinds": 102,
        "PJRT_Device_ClearMemoryStats": 106,
        "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace": 109,
        "PJRT_TopologyDescription_GetMemorySpaceKindIds": 110,
    }
)

TYPES: Mapping[int, int] = MappingProxyType(
    {24: 55, 25: 55, 26: 55, 27: 55, 28: 63, 29: 63, 30: 94, 31: 94, 32: 114, 33: 114}
)
"""Element types by their code. A plugin that does not know a type ends the process."""

FEATURES: Mapping[str, int] = MappingProxyType({"view_on_memory": 66, "overridden_options": 71})
"""Fields that an older plugin does not read, so that asking for them would be ignored."""


def since(name: str) -> int:
    """Return the minor version that a function, or a feature, came with."""
    return FUNCTIONS.get(name) or FEATURES.get(name) or MINIMUM_MINOR
