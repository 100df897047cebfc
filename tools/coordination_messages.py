"""Write the descriptors of the coordination service's messages: after a change of a .proto file.

They are kept as data and not as generated code: generated code is bound to versions of protobuf,
and its names would meet those of another library in protobuf's one pool.
"""

import base64
import importlib.resources
import tempfile
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "packages/devrt-core/src/devrt/distributed/protocol"
HEAD = (
    '"""Descriptors by file: written by tools/coordination_messages.py."""\n\n__all__ = ["FILES"]\n'
)


def descriptor(source: Path) -> bytes:
    """Return the serialised set of descriptors of a .proto file."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "set"
        include = importlib.resources.files("grpc_tools") / "_proto"
        flags = [f"-I{source.parent}", f"-I{include}", f"--descriptor_set_out={made}"]
        if protoc.main(["protoc", *flags, str(source)]):
            raise SystemExit(f"protoc refuses {source}")
        return made.read_bytes()


def text() -> str:
    """Return the module that has the descriptors."""
    rows = ""
    for source in sorted(FOLDER.glob("*.proto")):
        lines = textwrap.wrap(base64.b64encode(descriptor(source)).decode(), 88)
        quoted = "\n".join(f'        "{line}"' for line in lines)
        rows += f'    "{source.stem}": (\n{quoted}\n    ),\n'
    return f"{HEAD}\nFILES = {{\n{rows}}}\n"


if __name__ == "__main__":
    (FOLDER / "descriptors.py").write_text(text())
