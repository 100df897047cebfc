"""The table that a library exports, what it says of itself, and its extensions."""

from __future__ import annotations

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.raw import Raw
from devrt_pjrt.library.since import since
from devrt_pjrt.library.values import read_values

__all__: list[str] = []

_FIRST = "PJRT_Error_Destroy"
_POINTER = 8
_MOST_EXTENSIONS = 1000
FUNCTIONS = tuple(name for name, _ in ffi.typeof("PJRT_Api").fields if name.startswith("PJRT_"))
"""Every function that the header has, in the table's order."""

REQUIRED = (
    "PJRT_Error_Destroy",
    "PJRT_Error_Message",
    "PJRT_Error_GetCode",
    "PJRT_Plugin_Initialize",
    "PJRT_Plugin_Attributes",
    "PJRT_Event_Destroy",
    "PJRT_Event_IsReady",
    "PJRT_Event_OnReady",
    "PJRT_Client_Create",
    "PJRT_Client_Destroy",
    "PJRT_Client_PlatformName",
    "PJRT_Client_Devices",
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_Device_GetDescription",
    "PJRT_DeviceDescription_Id",
    "PJRT_DeviceDescription_Kind",
    "PJRT_Buffer_Destroy",
    "PJRT_Buffer_ReadyEvent",
    "PJRT_Buffer_ToHostBuffer",
)
"""What no caller can do without."""


def function_end(name: str) -> int:
    """Return how large a table has to be to have a function."""
    return int(ffi.offsetof("PJRT_Api", name)) + _POINTER


@api_case("GetPjrtApi is exported and gives a table of whole pointers", "PJRT_Api.struct_size")
def table_is_exported(raw: Raw) -> None:
    for name in FUNCTIONS:
        raw.note("there" if raw.has(name) else "absent", name)
    for name in raw.api.extension_names():
        raw.note("extension", name)
    size, first = raw.api.size, int(ffi.offsetof("PJRT_Api", _FIRST))
    expect(
        size > first and (size - first) % _POINTER == 0,
        expected=f"a struct_size of {first} bytes and a number of pointers",
        came=f"{size} bytes",
    )


@api_case("the version's structure has its size", "PJRT_Api.pjrt_api_version")
def table_has_a_version(raw: Raw) -> None:
    version = raw.table.pjrt_api_version  # which version it is the loader has seen to
    size = raw.size_of("PJRT_Api_Version")
    expect(
        version.struct_size in (size, ffi.sizeof("PJRT_Api_Version")),
        expected=f"a version whose struct_size is {size}",
        came=str(version.struct_size),
    )


@api_case("the table is as long as its version says", "PJRT_Api.struct_size")
def table_is_as_long_as_its_version_says(raw: Raw) -> None:
    of_version = [name for name in FUNCTIONS if since(name) <= raw.api.minor]
    beyond = [name for name in of_version if function_end(name) > raw.api.size]
    expect(
        not beyond,
        expected=f"a table that reaches {of_version[-1]}, as version 0.{raw.api.minor} has it",
        came=f"{raw.api.size} bytes, which end before {', '.join(beyond[:3])}",
    )
    newer = [n for n in FUNCTIONS if since(n) > raw.api.minor and function_end(n) <= raw.api.size]
    expect(
        not newer,
        expected=f"a table that ends where version 0.{raw.api.minor} does",
        came=f"{raw.api.size} bytes, which reach {', '.join(newer[:3])}",
    )


@api_case("what no caller can do without is there", "PJRT_Api")
def table_has_what_every_caller_needs(raw: Raw) -> None:
    missing = [name for name in REQUIRED if not raw.has(name)]
    expect(not missing, expected="these functions", came=f"no {', '.join(missing)}")


@api_case("initialising succeeds", "PJRT_Plugin_Initialize", deadline=60)
def plugin_initializes(raw: Raw) -> None:
    raw.start()


@api_case("attributes have names, types and stay as they are", "PJRT_Plugin_Attributes")
def plugin_has_attributes(raw: Raw) -> None:
    args = raw.call("PJRT_Plugin_Attributes")
    check_values(args.attributes, args.num_attributes, "the plugin")
    first = read_values(args.attributes, args.num_attributes)
    again = raw.call("PJRT_Plugin_Attributes")
    second = read_values(again.attributes, again.num_attributes)
    expect(first == second, expected=f"the same attributes again: {first}", came=str(second))


@api_case("the StableHLO versions are a range", "PJRT_Plugin_Attributes")
def plugin_reads_a_range_of_stablehlo(raw: Raw) -> None:
    args = raw.call("PJRT_Plugin_Attributes")
    found = read_values(args.attributes, args.num_attributes)
    names = "stablehlo_minimum_version", "stablehlo_current_version"
    if not all(name in found for name in names):
        raise NotApplicable("the plugin tells no versions of StableHLO")
    low, high = (found[name] for name in names)
    is_range = all(isinstance(v, tuple) and len(v) == 3 for v in (low, high)) and low <= high
    expect(is_range, expected="a minimum of three numbers, not above the current one",
           came=f"{low} to {high}")  # fmt: skip


@api_case("the version of XLA is a number", "PJRT_Plugin_Attributes")
def plugin_tells_its_version_of_xla(raw: Raw) -> None:
    args = raw.call("PJRT_Plugin_Attributes")
    found = read_values(args.attributes, args.num_attributes)
    if "xla_version" not in found:
        raise NotApplicable("the plugin tells no xla_version")
    value = found["xla_version"]
    expect(isinstance(value, int) and value >= 0, expected="an integer", came=value)


def check_values(values: object, count: int, what: str) -> None:
    """Fail the case unless named values are well-formed: names, types, and the size of each."""
    known = ffi.typeof("PJRT_NamedValue_Type").elements
    names = []
    for i in range(count):
        value = values[i]  # type: ignore[index]
        expect(value.name_size > 0, expected=f"a name for value {i} of {what}", came="none")
        name = bytes(ffi.buffer(value.name, value.name_size)).decode(errors="replace")
        expect(value.type in known, expected=f"a type of PJRT_NamedValue for {name!r} of {what}",
               came=f"number {value.type}")  # fmt: skip
        is_scalar = known[value.type].endswith(("kInt64", "kFloat", "kBool"))
        expect(not is_scalar or value.value_size == 1, expected=f"a value_size of 1 for {name!r}",
               came=str(value.value_size))  # fmt: skip
        names.append(name)
    repeated = sorted({name for name in names if names.count(name) > 1})
    expect(not repeated, expected=f"each name of {what} once", came=f"{repeated} more often")


def chain(raw: Raw) -> list[object]:
    """Return the extensions in the order of their chain; a chain without an end fails the case."""
    found: list[object] = []
    seen, at = set(), raw.table.extension_start
    while at != ffi.NULL:
        address = int(ffi.cast("uintptr_t", at))
        if address in seen or len(found) >= _MOST_EXTENSIONS:
            raise Failure("a chain of extensions that ends", "one that leads back to itself")
        seen.add(address)
        found.append(at)
        at = at.next
    return found


@api_case("extensions are a chain that ends, each of a size and of a type of its own",
          "PJRT_Extension_Base")  # fmt: skip
def extensions_are_a_chain(raw: Raw) -> None:
    least = raw.size_of("PJRT_Extension_Base")
    types = []
    for at in chain(raw):
        size, number = int(at.struct_size), int(at.type)  # type: ignore[attr-defined]
        expect(
            least <= size < 1 << 16,
            expected=f"at least {least} bytes of extension {number}",
            came=f"a struct_size of {size}",
        )
        types.append(number)
    twice = sorted({number for number in types if types.count(number) > 1})
    expect(not twice, expected="each type of extension once", came=f"types {twice} more often")


@api_case("extensions that devrt knows have functions", "PJRT_Extension_Base")
def extensions_have_their_functions(raw: Raw) -> None:
    known = {4: "PJRT_Layouts_Extension", 5: "PJRT_FFI_Extension",
             6: "PJRT_MemoryDescriptions_Extension"}  # fmt: skip
    found = raw.api.extensions()
    there = [number for number in known if number in found]
    if not there:
        raise NotApplicable("the library has no extension of layouts, FFI or memory descriptions")
    for number in there:
        first = ffi.typeof(known[number]).fields[1][0]
        function = raw.api.extension(number, known[number], first)
        expect(function, expected=f"{first} of extension {known[number]}", came="null")
