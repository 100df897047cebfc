"""Replicas, partitions and devices: as the caller says, the program, or the devices."""

import pytest

from devrt.compiling import Program
from devrt.compiling.completion import assign_devices, complete, refuse_too_few
from devrt.compiling.options import CompileOptions
from devrt.errors import InvalidArgumentError


def program(**counts):
    pairs = ", ".join(f"mhlo.num_{name} = {count} : i32" for name, count in counts.items())
    return Program.of(f"module @m attributes {{{pairs}}} {{ func.func @main() {{ return }} }}")


def counts(options, code, named=None):
    made = complete(CompileOptions(**options), code, named, "test")
    return made.num_replicas, made.num_partitions


@pytest.mark.parametrize(
    ("options", "of_program", "named", "expected"),
    [
        ({}, {}, None, (1, 1)),
        ({}, {}, 4, (1, 4)),
        ({}, {"replicas": 1, "partitions": 1}, 4, (1, 4)),
        ({}, {"partitions": 4}, None, (1, 4)),
        ({}, {"replicas": 4}, 4, (4, 1)),
        ({}, {"replicas": 2, "partitions": 2}, 4, (2, 2)),
        ({"num_replicas": 2}, {}, 2, (2, 1)),
        ({"num_replicas": 2}, {}, 4, (2, 2)),
        ({"num_replicas": 2}, {"partitions": 4}, None, (2, 4)),
        ({"num_partitions": 2}, {"replicas": 2}, 4, (2, 2)),
        ({"num_partitions": 2}, {"partitions": 4}, None, (1, 2)),
        ({"device_assignment": [[3, 1], [0, 2]]}, {"partitions": 4}, None, (2, 2)),
    ],
)
def test_the_caller_comes_first_then_the_program_then_the_devices(
    options, of_program, named, expected
):
    ids = None if named is None else range(named)
    assert counts(options, program(**of_program), ids) == expected


@pytest.mark.parametrize(
    ("options", "of_program", "named", "match"),
    [
        (
            {},
            {"partitions": 4},
            2,
            r"4 devices \(1 replica\(s\) of 4 partition\(s\)\), and 2 were",
        ),
        ({"num_replicas": 2}, {}, 3, r"2 devices .*, and 3 were named"),
        ({"num_partitions": 2}, {}, 1, r"2 devices .*, and 1 were named"),
        ({"num_replicas": 3}, {}, 2, r"3 devices .*, and 2 were named"),
        ({"device_assignment": [[0]]}, {}, 1, "either devices or device_assignment"),
    ],
)
def test_another_number_of_devices_is_refused(options, of_program, named, match):
    with pytest.raises(InvalidArgumentError, match=f"^test failed: .*{match}") as caught:
        counts(options, program(**of_program), range(named))
    assert caught.value.operation == "test"


def test_the_dialect_of_shardings_is_the_programs_unless_the_caller_says():
    shardy = Program.of('module { sdy.mesh @mesh = <["x"=2]> func.func @main() { return } }')
    for code, given, expected in (
        (shardy, None, True),
        (shardy, False, False),
        (program(), None, False),
        (program(), True, True),
    ):
        made = complete(CompileOptions(use_shardy_partitioner=given), code, None, "test")
        assert made.use_shardy_partitioner is expected


def assigned(named, local, **options):
    made = complete(CompileOptions(**options), program(), named, "test")
    done = assign_devices(made, named, local, "test", "Buy more.")
    return [list(row) for row in done.assignment()._ids]


def test_devices_are_those_that_are_named_or_the_first_here():
    assert assigned([5, 3], [0, 1, 2, 3]) == [[5, 3]]
    assert assigned([5, 3], [0, 1], num_replicas=2) == [[5], [3]]
    assert assigned(None, [4, 5, 6, 7], num_replicas=2, num_partitions=2) == [[4, 5], [6, 7]]
    assert assigned(None, [4, 5, 6], num_partitions=2) == [[4, 5]]
    assert assigned(None, [0, 1], device_assignment=[[1], [0]]) == [[1], [0]]


def test_too_few_are_refused_with_a_remedy():
    with pytest.raises(InvalidArgumentError, match=r"needs 3 devices .* there are 2\. Buy more\."):
        assigned(None, [0, 1], num_partitions=3)
    made = complete(CompileOptions(num_partitions=3), program(), None, "test")
    refuse_too_few(made, 3, "the shop has", "test", "Wait.")
    with pytest.raises(InvalidArgumentError, match=r"the shop has 2\. Wait\."):
        refuse_too_few(made, 2, "the shop has", "test", "Wait.")


def test_devices_have_other_numbers_in_an_engine():
    assignment = CompileOptions(device_assignment=[[8, 9]]).assignment()
    assert (
        assignment.renumbered({9: 1, 8: 0})
        == CompileOptions(device_assignment=[[0, 1]]).assignment()
    )
    with pytest.raises(KeyError):
        assignment.renumbered({8: 0})
