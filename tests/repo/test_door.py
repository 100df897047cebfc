"""Backends, ours too, import the modules that the contract lists, and nothing else of the core."""

import ast

import pytest

from devrt.contract import PUBLIC_MODULES
from devrt.testing.imports import file_findings, import_findings, modules_of, used_modules


def backends(checkout):
    """Return the folders of the backends' projects."""
    found = [*checkout.root.glob("packages/*"), *checkout.root.glob("examples/*")]
    return [path for path in found if path.name != "devrt-core" and (path / "src").is_dir()]


def test_backends_come_in_by_the_door(checkout):
    assert len(backends(checkout)) > 4
    found = [finding for project in backends(checkout) for finding in import_findings(project)]
    assert not found, "\n".join(found)


def test_the_sdks_headers_do_too(checkout):
    public, modules = PUBLIC_MODULES, modules_of(checkout.core)
    found = [
        finding
        for path in sorted((checkout.core / "native").rglob("*.h*"))
        for finding in file_findings(path.name, path.read_text("utf-8"), public, modules)
    ]
    assert not found, "\n".join(found)


def test_every_module_on_the_list_is_used(checkout):
    used = [used_modules(project) for project in backends(checkout)]
    sdk = {"devrt.native"}  # of the build, and of the SDK's headers
    assert set(PUBLIC_MODULES) <= set().union(*used, sdk)


def test_a_folder_without_code_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="pass the folder of its"):
        import_findings(tmp_path)


def test_the_list_has_modules_that_are_there_and_say_what_they_are_for(checkout):
    public = set(PUBLIC_MODULES)
    assert public <= modules_of(checkout.core)
    assert not [name for name in public if "._" in name]
    for name in sorted(public):
        path = checkout.core.joinpath(*name.split(".")[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), name


KIT = "devrt.testing.conformance"
PUBLIC = {"devrt.contract", "devrt.native", KIT}
MODULES = {
    *PUBLIC,
    "devrt",
    "devrt.arrays",
    "devrt.contract.device",
    "devrt._support",
    f"{KIT}.case",
}


@pytest.mark.parametrize(
    "source",
    [
        "import devrt",
        "from devrt import devices",
        "from devrt import arrays",
        "def f():\n    import devrt.arrays",
        "from devrt.arrays import Array",
        "from devrt.contract.device import Device",
        "from devrt.contract import device",
        "from devrt.testing.conformance.case import case",
        "from devrt.contract import _nulls",
        "from devrt._support import log",
        "importlib.import_module('devrt.arrays')",
        "MODULE = 'devrt.arrays'",
        "from devrt_other import plugin",
    ],
)
def test_what_goes_past_the_door_is_reported(source):
    assert len(file_findings("devrt_acme/x.py", source, PUBLIC, MODULES)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'get(cache, "devrt.contract.device", "Device")',
        'import_("devrt.arrays").attr("Array")',
        'PyImport_ImportModule("devrt._support");',
        'get(cache, "devrt.contract", "_CURRENT")',
        'import_("devrt.contract").attr(\n"_CURRENT")',
    ],
)
def test_a_string_in_native_code_that_goes_past_it_is_reported(source):
    assert len(file_findings("native/x.cpp", source, PUBLIC, MODULES)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("x.py", "from devrt.contract import Client\nfrom devrt import contract"),
        ("x.py", "from devrt.testing.conformance import case"),  # the decorator, not the module
        ("x.py", "from ..x import y\nfrom devrt_acme import z\nimport numpy"),
        ("x.py", '"""Derives from devrt.arrays."""\nNAME = "devrt"'),
        ("x.cpp", 'get(cache, "devrt.contract", "Client"); log("devrt", "_x");'),
        ("x.cpp", 'import_("devrt.native").attr("check_abi")  // not devrt.arrays'),
        ("x.cpp", 'constexpr std::string_view kName = "devrt.HeldError";'),
    ],
)
def test_what_comes_in_by_the_door_is_not(path, source):
    own = frozenset({"devrt_acme"})
    assert file_findings(path, source, PUBLIC, MODULES, own) == []
