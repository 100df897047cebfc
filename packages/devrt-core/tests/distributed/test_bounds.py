"""What a coordination service and its clients keep does not grow with what a job does."""

import asyncio

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt.distributed.calls import Calls
from devrt.distributed.cluster import Cluster, Limits
from devrt.distributed.connection import Connection
from devrt.distributed.protocol.messages import message
from devrt.distributed.security import Bounds, Security
from devrt.errors import DistributedError, InvalidArgumentError, StatusCode


def calls_of(size, waiting_calls):
    cluster = Cluster(size, Limits(heartbeat=10, register=60, shutdown=30))
    return Calls(cluster, 1, Bounds(waiting_calls=waiting_calls)), cluster


def register(calls, number, incarnation=None):
    incarnation = number + 1 if incarnation is None else incarnation
    kind = message("RegisterTaskRequest")
    return calls.RegisterTask(kind(incarnation=incarnation, source_task_id=number))


def kept(owner):
    """Return how many entries all tables of an object have."""
    tables = [table for table in vars(owner).values() if isinstance(table, (dict, set))]
    return sum(len(table) for table in tables)


def test_more_processes_register_than_calls_of_one_may_wait():
    async def all_come():
        calls, _ = calls_of(300, waiting_calls=2)
        answers = await asyncio.gather(*(register(calls, number) for number in range(300)))
        assert len(answers) == 300
        assert kept(calls) == 0

    asyncio.run(all_come())


def test_one_process_cannot_register_without_end_and_wrong_ids_leave_nothing():
    async def flood():
        calls, _ = calls_of(2, waiting_calls=2)
        waiting = [asyncio.ensure_future(register(calls, 0)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(DistributedError) as caught:
            await register(calls, 0)
        assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
        before = kept(calls)
        for number in range(2, 50):
            with pytest.raises(InvalidArgumentError):
                await register(calls, number)
        assert kept(calls) == before
        await register(calls, 1)
        await asyncio.gather(*waiting)

    asyncio.run(flood())


def test_barriers_that_were_passed_are_not_remembered():
    cluster = calls_of(1, 2)[1]
    cluster.register(0, 1, lambda error: None)
    before = kept(cluster)
    passed = []
    for number in range(100):
        cluster.arrive(f"b{number}", 0, 60, [], passed.append)
    assert passed == [None] * 100
    assert kept(cluster) == before


def test_a_client_remembers_the_latest_barriers():
    connection = Connection("localhost:1", 0, 1, Security(), 10, False)
    try:
        connection.passed("seldom", 0)
        for number in range(20_000):
            connection.passed("often", number)
            connection.passed(f"b{number}", 0)
        assert kept(connection) < 17_000
        assert connection.round("often") == 20_000
        assert connection.round("seldom") == 0
    finally:
        connection.close()
