"""Sizes with units, and options of JAX that devrt has not."""

import pytest

from devrt._config.layers import Config
from devrt.errors import ConfigError
from devrt.records import OptionSpec

SIZE = OptionSpec(name="cache_size", type=int, minimum=-1, unit="bytes")


@pytest.fixture
def config():
    made = Config({})
    made.define(SIZE)
    return made


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GB", 10**9),
        ("1.5 gb", 1_500_000_000),
        ("512MiB", 512 << 20),
        ("2TiB", 2 << 40),
        ("7kB", 7000),
        ("64B", 64),
        ("4096", 4096),
        ("-1", -1),
    ],
)
def test_a_size_may_have_a_unit(config, text, size):
    config.update("cache_size", text)
    assert config.cache_size == size
    environ = Config({"DEVRT_CACHE_SIZE": text})
    environ.define(SIZE)
    assert environ.cache_size == size


@pytest.mark.parametrize("text", ["1G", "GB", "1.5B", "many", "1 2MB", "--1MB"])
def test_other_text_is_refused_with_what_is_taken(config, text):
    with pytest.raises(ConfigError, match=r"takes a number of bytes \(512MiB, 1.5GB, 4096\), not"):
        config.update("cache_size", text)


@pytest.mark.parametrize(("text", "meant"), [("4G", "'4GiB'"), ("1.5 m", "'1.5 MiB'")])
def test_a_unit_that_is_cut_short_says_what_was_meant(config, text, meant):
    with pytest.raises(ConfigError, match=rf"not {text!r}\. Did you mean {meant}\?$"):
        config.update("cache_size", text)


def test_other_numbers_have_no_unit(config):
    with pytest.raises(ConfigError, match="takes a number, not '1GB'"):
        config.update("init_timeout", "1GB")


def test_64_bit_types_need_no_switch(config):
    with pytest.raises(ConfigError, match="keep the dtype that they have, 64-bit") as caught:
        config.update("jax_enable_x64", True)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", ["jax_debug_nans", "jax_default_matmul_precision"])
def test_other_options_of_jax_are_named_as_such(config, name):
    with pytest.raises(ConfigError, match=r"an option of JAX.*no switches.*`devrt config` lists"):
        config.update(name, True)


def test_a_misspelt_option_is_one_under_jax_s_prefix_too(config):
    with pytest.raises(ConfigError, match="Did you mean 'platforms'"):
        config.update("jax_platfroms", "cpu")
