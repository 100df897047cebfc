"""Each fault of a PJRT library is found by the case that is about it.

A fault of each module of cases belongs to the test-suite; the others have the mark ``mutants``.
"""

import dataclasses
from pathlib import Path

import pytest

import support
from devrt.testing.conformance import Status, Worker, conform
from devrt.testing.conformance.cases import library_cases
from devrt.testing.conformance.subject import find_subject

SOURCE = Path(__file__).parents[1] / "fake" / "mutant.c"

FOUND_BY = {
    "no_table": "table.table_is_exported",
    "uneven_size": "table.table_is_exported",
    "no_version_size": "table.table_has_a_version",
    "short_table": "table.table_is_as_long_as_its_version_says",
    "no_ready_event": "table.table_has_what_every_caller_needs",
    "endless_chain": "table.extensions_are_a_chain",
    "extension_twice": "table.extensions_are_a_chain",
    "nameless_attribute": "table.plugin_has_attributes",
    "size_unchecked": "structs.size_of_Client_PlatformName_is_checked",
    "newer_refused": "structs.larger_structures_are_taken",
    "empty_message": "errors.errors_have_a_message",
    "no_code": "errors.errors_have_a_code",
    "callback_twice": "events.callbacks_are_called_once",
    "never_ready": "events.awaited_events_are_ready",
    "process_1": "clients.client_is_process_0",
    "any_id": "clients.unknown_ids_are_refused",
    "far_devices": "clients.addressable_devices_are_among_all",
    "assignment_overflows": "clients.small_assignments_are_refused",
    "one_id": "devices.device_ids_are_unique",
    "no_kind": "memories.memories_have_names",
    "strides_ignored": "sources.strides_are_followed",
    "no_done_event": "sources.sources_of_a_transfer_may_change_after_it",
    "source_read_later": "sources.sources_of_the_call_may_change_after_it",
    "one_byte_more": "sources.shapes_go_there_and_back",
    "no_size": "buffers.buffers_tell_their_size_on_the_host",
    "wrong_dimensions": "buffers.buffers_have_type_and_dimensions",
    "pointer_beside": "buffers.pointers_are_to_the_elements",
    "never_deleted": "buffers.buffers_are_deleted",
    "delete_nothing": "buffers.deleted_buffers_are_not_read",
    "offset_ignored": "copies.bytes_are_read_in_part",
    "copy_aborts": "copies.bytes_beyond_the_end_are_refused",
    "view_twice": "views.views_are_given_back_once",
    "one_output_more": "programs.results_are_counted",
    "wrong_types": "programs.results_have_types",
    "one_fingerprint": "programs.programs_have_a_fingerprint",
    "half_serialized": "serialized.executables_are_read_and_run",
    "no_end_event": "execution.ends_of_programs_have_an_event",
    "count_aborts": "execution.too_few_arguments_are_refused",
    "donates_always": "donation.arguments_that_must_stay_do",
}
"""The faults of the library, and the case that is about each, with its module."""

CRASHED = {
    "copy_aborts": "PJRT_Buffer_CopyRawToHost",
    "count_aborts": "PJRT_LoadedExecutable_Execute",
    "size_unchecked": "PJRT_Client_PlatformName",  # it uses a client that is not there
}
"""The faults that end the process, and the function in which they do."""


def subject_of(fault):
    return FOUND_BY[fault].partition(".")[0]


def case_of(fault):
    return "c_api." + FOUND_BY[fault].partition(".")[2]


SAMPLED = support.sample({f: f for f in FOUND_BY}, subject_of, pytest.mark.mutants)


@pytest.fixture(scope="module")
def mutant(tmp_path_factory, include, xla_cpu_library):
    """Return the path of a library that is another one with a fault; ``MUTANT`` says which."""
    target = tmp_path_factory.mktemp("mutant") / "libmutant.so"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUTANT_OF", xla_cpu_library)
        yield str(support.shared_library(target, SOURCE, "-Wall", "-Werror", f"-I{include}"))


def test_without_a_fault_each_case_passes(mutant):
    report = conform(mutant, cases=sorted(set(map(case_of, FOUND_BY))))
    assert [(result.id, result.came) for result in report.failures] == []
    assert {result.status for result in report.results} == {Status.PASSED}


@pytest.mark.parametrize("fault", SAMPLED)
def test_a_fault_is_found(mutant, fault, monkeypatch):
    monkeypatch.setenv("MUTANT", fault)
    (result,) = conform(mutant, cases=[case_of(fault)]).results
    assert result.status is (Status.CRASHED if fault in CRASHED else Status.FAILED)
    assert result.expected
    assert result.came
    assert result.contract
    assert CRASHED.get(fault, "") in result.came


def test_a_call_that_does_not_return_is_late(mutant, monkeypatch):
    monkeypatch.setenv("MUTANT", "hangs_on_nonsense")
    cases = {case.name: case for case in library_cases()}
    late = dataclasses.replace(cases["compile_of_nothing_is_refused"], alone=False, deadline=5)
    with Worker(find_subject(mutant)) as worker:
        assert worker.run(cases["client_is_made"]).status is Status.PASSED  # what is made once, is
        result = worker.run(late)
    assert result.status is Status.TIMED_OUT
    assert "in PJRT_Client_Compile" in result.came
