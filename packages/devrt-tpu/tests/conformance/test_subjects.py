"""Libraries that lack something: what is not applicable, and what fails all the same."""

import json
from pathlib import Path

import pytest

from devrt.errors import InvalidArgumentError
from devrt.testing.conformance import Status, conform
from devrt.testing.conformance.cases import library_cases


def statuses(subject, *names):
    report = conform(subject, cases=[f"c_api.{name}" for name in names])
    return report, {result.id.removeprefix("c_api."): result for result in report.results}


def test_without_a_client_the_report_says_so_and_the_table_is_seen_to(fake, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "Client_Create")
    report, found = statuses(fake, "table_is_exported", "client_is_made", "buffers_are_deleted")
    assert found["table_is_exported"].status is Status.PASSED
    assert found["client_is_made"].status is Status.FAILED
    assert found["client_is_made"].came == "INTERNAL: fake failure of Client_Create"
    assert found["buffers_are_deleted"].status is Status.NOT_APPLICABLE
    assert "no client could be made" in found["buffers_are_deleted"].reason
    covered = report.coverage()
    assert {"PJRT_Client_Create", "PJRT_Error_Message"} <= set(covered["called"])
    assert "PJRT_Client_Compile" in covered["absent"]
    assert "PJRT_Buffer_Delete" in covered["never_called"]
    assert report.subject["library"] == Path(fake).name  # a report leaves the machine
    assert len(report.subject["library_sha256"]) == 64


def test_a_function_that_is_not_there_or_unimplemented_passes_nothing(fake, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "Device_MemoryStats")
    monkeypatch.setenv("FAKE_CODE", "12")
    report, found = statuses(fake, "memory_figures_fit", "programs_are_compiled")
    assert {result.status for result in found.values()} == {Status.NOT_APPLICABLE}
    assert "is unimplemented: fake failure" in found["memory_figures_fit"].reason
    assert "has no PJRT_Client_Compile" in found["programs_are_compiled"].reason
    assert report.coverage()["unimplemented"] == ["PJRT_Device_MemoryStats"]
    assert not report.ok


def test_a_function_that_fails_fails_its_case(fake, monkeypatch):
    monkeypatch.setenv("FAKE_FAIL", "Buffer_ReadyEvent")
    _, found = statuses(fake, "callbacks_are_called_once")
    (result,) = found.values()
    assert result.status is Status.FAILED
    assert result.came == "INTERNAL: fake failure of Buffer_ReadyEvent"


@pytest.mark.parametrize(("devices", "status"), [(1, Status.NOT_APPLICABLE), (2, Status.PASSED)])
def test_clients_have_the_options_of_the_configuration_file(
    tmp_path, xla_cpu_library, devices, status
):
    config = tmp_path / "host.json"
    options = {"library_path": xla_cpu_library, "create_options": {"cpu_device_count": devices}}
    config.write_text(json.dumps(options))
    _, found = statuses(str(config), "copies_go_to_devices")
    assert found["copies_go_to_devices"].status is status


@pytest.mark.parametrize("value", ["{", "{}", '{"name": 1}', '{"name": "a", "options": 2}'])
def test_a_topology_that_is_misspelt_is_the_callers_mistake(fake, monkeypatch, value):
    library_cases.cache_clear()
    monkeypatch.setenv("DEVRT_CONFORM_TOPOLOGY", value)
    with pytest.raises(InvalidArgumentError, match="DEVRT_CONFORM_TOPOLOGY is ") as caught:
        conform(fake, cases=["c_api.table_is_exported"])
    assert caught.value.value == value


def test_a_topology_can_be_named(libtpu, monkeypatch):
    name = "topologies_are_made_without_a_device"
    monkeypatch.setenv("DEVRT_CONFORM_TOPOLOGY", "v5e:2x2")
    _, found = statuses(libtpu, name, "programs_are_compiled_for_a_topology")
    assert {result.status for result in found.values()} == {Status.PASSED}
    monkeypatch.setenv("DEVRT_CONFORM_TOPOLOGY", '{"name": "no such", "options": {}}')
    _, found = statuses(libtpu, name)
    assert found[name].status is Status.FAILED
