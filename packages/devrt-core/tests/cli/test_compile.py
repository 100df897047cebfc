"""What `devrt compile` reports where no platform knows the topology."""

import pytest

from devrt.cli.compile import compile_file
from devrt.errors import InvalidArgumentError
from devrt.runtime import register_plugin


def test_a_remedy_of_several_platforms_is_given_once(plugins, as_default, tmp_path):
    as_default(plugins.runtime())
    for name in ("zip", "zap"):
        library = tmp_path / f"{name}.so"
        library.touch()
        register_plugin(name, library_path=library)
    program = tmp_path / "a.mlir"
    program.write_text("func.func")
    with pytest.raises(InvalidArgumentError, match=r"zap: .*\n.*zip: .*\n.*loader") as caught:
        compile_file(str(program), "v5e:2x2", str(tmp_path / "out"))
    assert str(caught.value).count("Install the PJRT loader") == 1


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("h100:8", '"./packages/devrt-cuda[compile]"'),
        ("v5e:2x2", '"./packages/devrt-tpu[libtpu]"'),
    ],
)
def test_a_topology_whose_wheels_are_missing_names_them(
    plugins, as_default, tmp_path, topology, words
):
    as_default(plugins.runtime())
    program = tmp_path / "a.mlir"
    program.write_text("func.func")
    with pytest.raises(InvalidArgumentError, match="no installed plugin describes") as caught:
        compile_file(str(program), topology, str(tmp_path / "out"))
    assert words in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mlir", "site"]
