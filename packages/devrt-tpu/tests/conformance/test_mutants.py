"""Each fault of a PJRT library is found by the case that is about it."""

from pathlib import Path

import pytest

import support
from devrt.testing.conformance import Status, conform

SOURCE = Path(__file__).parents[1] / "fake" / "mutant.c"

FOUND_BY = {
    "no_table": "table_is_exported",
    "uneven_size": "table_is_exported",
    "no_version_size": "table_has_a_version",
    "short_table": "table_is_as_long_as_its_version_says",
    "no_ready_event": "table_has_what_every_caller_needs",
    "endless_chain": "extensions_are_a_chain",
    "extension_twice": "extensions_are_a_chain",
    "nameless_attribute": "plugin_has_attributes",
    "size_unchecked": "size_of_Client_PlatformName_is_checked",
    "newer_refused": "larger_structures_are_taken",
    "empty_message": "errors_have_a_message",
    "no_code": "errors_have_a_code",
    "callback_twice": "callbacks_are_called_once",
    "never_ready": "awaited_events_are_ready",
    "process_1": "client_is_process_0",
    "any_id": "unknown_ids_are_refused",
    "one_id": "device_ids_are_unique",
    "no_kind": "memories_have_names",
    "far_devices": "addressable_devices_are_among_all",
    "assignment_overflows": "small_assignments_are_refused",
    "strides_ignored": "strides_are_followed",
    "no_done_event": "sources_of_a_transfer_may_change_after_it",
    "source_read_later": "sources_of_the_call_may_change_after_it",
    "one_byte_more": "shapes_go_there_and_back",
    "no_size": "buffers_tell_their_size_on_the_host",
    "wrong_dimensions": "buffers_have_type_and_dimensions",
    "pointer_beside": "pointers_are_to_the_elements",
    "never_deleted": "buffers_are_deleted",
    "delete_nothing": "deleted_buffers_are_not_read",
    "offset_ignored": "bytes_are_read_in_part",
    "copy_aborts": "bytes_beyond_the_end_are_refused",
    "view_twice": "views_are_given_back_once",
    "one_output_more": "results_are_counted",
    "wrong_types": "results_have_types",
    "one_fingerprint": "programs_have_a_fingerprint",
    "half_serialized": "executables_are_read_and_run",
    "no_end_event": "ends_of_programs_have_an_event",
    "donates_always": "arguments_that_must_stay_do",
    "count_aborts": "too_few_arguments_are_refused",
}
"""The faults of the library, and the case that is about each."""

CRASHED = {
    "copy_aborts": "PJRT_Buffer_CopyRawToHost",
    "count_aborts": "PJRT_LoadedExecutable_Execute",
    "size_unchecked": "PJRT_Client_PlatformName",  # it uses a client that is not there
}
"""The faults that end the process, and the function in which they do."""


@pytest.fixture(scope="module")
def mutant(tmp_path_factory, include, xla_cpu_library):
    """Return the path of a library that is another one with a fault; ``MUTANT`` says which."""
    target = tmp_path_factory.mktemp("mutant") / "libmutant.so"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUTANT_OF", xla_cpu_library)
        yield str(support.shared_library(target, SOURCE, "-Wall", "-Werror", f"-I{include}"))


def test_without_a_fault_each_case_passes(mutant):
    report = conform(mutant, cases=[f"c_api.{name}" for name in set(FOUND_BY.values())])
    assert [(result.id, result.came) for result in report.failures] == []
    assert {result.status for result in report.results} == {Status.PASSED}


@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_fault_is_found(mutant, fault, monkeypatch):
    monkeypatch.setenv("MUTANT", fault)
    (result,) = conform(mutant, cases=[f"c_api.{FOUND_BY[fault]}"]).results
    assert result.status is (Status.CRASHED if fault in CRASHED else Status.FAILED)
    assert result.expected
    assert result.came
    assert result.contract
    assert CRASHED.get(fault, "") in result.came


def test_a_call_that_does_not_return_is_late(mutant, monkeypatch):
    monkeypatch.setenv("MUTANT", "hangs_on_nonsense")
    (result,) = conform(mutant, cases=["c_api.compile_of_nothing_is_refused"]).results
    assert result.status is Status.TIMED_OUT
    assert "in PJRT_Client_Compile" in result.came
