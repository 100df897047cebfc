"""What `devrt compile` reports where no platform knows the topology."""

import pytest

from devrt.cli.compile import compile_file
from devrt.errors import InvalidArgumentError
from devrt.runtime import register_plugin


@pytest.fixture
def without_loader(plugins, as_default, tmp_path):
    as_default(plugins.runtime())
    for name in ("zip", "zap"):
        library = tmp_path / f"{name}.so"
        library.touch()
        register_plugin(name, library_path=library)


def refused(tmp_path, topology):
    program = tmp_path / "a.mlir"
    program.write_text("func.func")
    with pytest.raises(InvalidArgumentError, match="no platform knows the topology") as caught:
        compile_file(str(program), topology, str(tmp_path / "out"))
    return str(caught.value)


def test_a_name_that_is_known_has_one_remedy_and_no_word_of_other_platforms(
    without_loader, tmp_path
):
    words = refused(tmp_path, "v5e:2x2")
    assert words.count("pip install") == 1
    assert "zap" not in words


def test_a_name_that_is_not_known_comes_with_those_that_are(without_loader, tmp_path):
    words = refused(tmp_path, "foo:1")
    assert "v5e" in words.partition("(tpu)")[0]
    assert "zap, zip may know others. Install the PJRT loader" in words
    assert words.count("Install the PJRT loader") == 1


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
