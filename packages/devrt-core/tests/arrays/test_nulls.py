"""Missing elements are refused in every library's arrays that can tell; NaN is a value."""

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt import contract
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeClient

pytest.importorskip("devrt_cpu")


def polars(make):
    return lambda: make(pytest.importorskip("polars"))


def pandas(make):
    return lambda: make(pytest.importorskip("pandas"))


def pyarrow(make):
    return lambda: make(pytest.importorskip("pyarrow"))


def rows(second):
    return polars(lambda pl: pl.Series([[1.0, second], [2, 3]], dtype=pl.Array(pl.Float64, 2)))


MISSING = {
    "masked": lambda: np.ma.array([1.0, 2.0], mask=[0, 1]),
    "polars integers": polars(lambda pl: pl.Series([1, None])),
    "polars floats": polars(lambda pl: pl.Series([1.0, None])),
    "polars flags": polars(lambda pl: pl.Series([True, None])),
    "polars rows": rows(None),
    "polars table": polars(lambda pl: pl.DataFrame({"a": [1.0, 2.0], "b": [1, None]})),
    "polars structs": polars(lambda pl: pl.Series([{"a": 1.0, "b": None}, {"a": 2.0, "b": 3.0}])),
    "polars rows of structs": polars(
        lambda pl: pl.Series(
            [[{"a": None}], [{"a": 1.0}]], dtype=pl.Array(pl.Struct({"a": pl.Float64}), 1)
        )
    ),
    "pandas column": pandas(lambda pd: pd.Series([1, None], dtype="Int64")),
    "pandas array": pandas(lambda pd: pd.array([1.5, None], dtype="Float64")),
    "pandas index": pandas(lambda pd: pd.Index([1, None], dtype="Int64")),
    "pandas table": pandas(lambda pd: pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})),
    "pyarrow array": pyarrow(lambda pa: pa.array([1, None])),
    "pyarrow chunks": pyarrow(lambda pa: pa.chunked_array([[1.5], [None]], pa.float64())),
    "pyarrow table": pyarrow(lambda pa: pa.table({"a": [1.5, None]})),
    "pyarrow batch": pyarrow(lambda pa: pa.record_batch({"a": [1.5, None]})),
}  # fmt: skip
WHOLE = {
    "masked": lambda: np.ma.array([1.0, 2.0], mask=[0, 0]),
    "polars": polars(lambda pl: pl.Series([1.0, float("nan")])),
    "polars rows": rows(2.0),
    "polars table": polars(lambda pl: pl.DataFrame({"a": [1.0, 2.0], "b": [1, 2]})),
    "polars structs": polars(lambda pl: pl.Series([{"a": 1.0, "b": 0.5}, {"a": 2.0, "b": 3.0}])),
    "pandas": pandas(lambda pd: pd.Series([1.0, float("nan")])),
    "pandas nullable": pandas(lambda pd: pd.Series([1, 2], dtype="Int64")),
    "pandas table": pandas(lambda pd: pd.DataFrame({"a": [1.0, float("nan")]})),
    "pyarrow": pyarrow(lambda pa: pa.array([1.0, float("nan")])),
    "pyarrow table": pyarrow(lambda pa: pa.table({"a": [1.5, 2.0]})),
}
TAKERS = {
    "the default device": lambda x, d: devrt.device_put(x),
    "a device": lambda x, d: devrt.device_put(x, d[0]),
    "another client": lambda x, d: devrt.device_put(x, AcmeClient(1).devices()[0]),
    "a tree": lambda x, d: devrt.device_put({"a": [x]}, d[0])["a"][0],
    "a sharding": lambda x, d: devrt.device_put(
        x, NamedSharding(devrt.make_mesh((2,), ("x",), devices=d[:2]), P("x"))
    ),
    "several devices": lambda x, d: devrt.device_put_replicated(x, d[:1]),
    "array": lambda x, d: jnp.array(x),
    "device_get": lambda x, d: devrt.device_get(x),
    "the client": lambda x, d: d[0].client.buffer_from_pyval(x),
    "the client at once": lambda x, d: d[0].client.buffers_from_pyvals([x], [d[0]])[0],
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
@pytest.mark.parametrize("make", MISSING.values(), ids=MISSING)
def test_missing_elements_are_refused(cpu, make, take):
    x = make()
    with pytest.raises(InvalidTypeError, match=r"1 of its elements .* mask") as caught:
        take(x, cpu)
    assert type(x).__name__ in str(caught.value)


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_whole_arrays_are_taken(cpu, make, take):
    x = make()
    found = np.asarray(take(x, cpu))
    np.testing.assert_array_equal(found.squeeze(), np.asarray(x).squeeze())


@pytest.mark.parametrize("make", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("nest", [lambda x: [x, x], lambda x: ([1.0, 2.0], [x])])
def test_missing_elements_within_sequences_are_refused(cpu, make, nest):
    with pytest.raises(InvalidTypeError, match=r"1 of its elements .* mask"):
        jnp.array(nest(make()))
    with pytest.raises(InvalidTypeError, match=r"1 of its elements .* mask"):
        jnp.full(2, nest(make()))


def test_sequences_of_whole_arrays_are_taken(cpu):
    made = jnp.array([np.ma.array([1.0, 2.0], mask=[0, 0]), [3.0, float("nan")]])
    np.testing.assert_array_equal(np.asarray(made), [[1.0, 2.0], [3.0, np.nan]])


@pytest.mark.parametrize(
    "make",
    [polars(lambda pl: pl.LazyFrame({"a": [1.0]})), polars(lambda pl: pl.col("a"))],
    ids=["query", "expression"],
)
@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_what_has_no_elements_yet_is_no_array(cpu, make, take, request):
    x = make()
    if "device_get" in request.node.name:
        assert take(x, cpu) is x
        return
    with pytest.raises((InvalidTypeError, InvalidArgumentError)):  # it has no shape to divide
        take(x, cpu)


def test_a_table_is_queried_once_for_all_columns(cpu, monkeypatch):
    pd = pytest.importorskip("pandas")
    taken = []
    plain = pd.DataFrame(np.ones((2, 50)))
    nullable = plain.astype("Float64")
    iloc = pd.DataFrame.iloc
    monkeypatch.setattr(pd.DataFrame, "iloc", property(lambda x: taken.append(1) or iloc.fget(x)))
    for x, times in ((plain, 0), (nullable, 5)):
        taken.clear()
        contract.refuse_nulls(x)
        assert len(taken) <= times
