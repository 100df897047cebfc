// What lives in memory, for people: out-of-memory errors, heap profiles, statistics.
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "binding/call_site.hpp"
#include "binding/python.hpp"
#include "client/release_queue.hpp"
#include "devrt/memory/memory_report.hpp"
#include "devrt/profile/heap_profile.hpp"

namespace devrt::native {

namespace {

PyObject* warning_class = nullptr;
PyObject* compress_function = nullptr;

nb::dict to_dict(const LiveGroup& group) {
  nb::dict facts;
  facts["count"] = group.count;
  facts["bytes"] = group.bytes;
  if (!group.program.empty()) facts["program"] = nb::str(group.program.c_str());
  facts["shape"] = to_tuple(group.shape);
  const std::string_view dtype = group.program.empty() ? info(group.type).name : std::string_view();
  facts["dtype"] = nb::str(dtype.data(), dtype.size());
  facts["device"] = nb::str(group.device.c_str());
  facts["memory_kind"] = nb::str(group.kind.c_str());
  facts["call_site"] = nb::str(describe_call_site(group.call_site.get()).c_str());
  return facts;
}

nb::dict to_dict(const ProgramNeeds& needs) {
  nb::dict facts;
  facts["name"] = nb::str(needs.name.c_str());
  facts["devices"] = needs.devices;
  facts["argument_size_in_bytes"] = needs.arguments;
  facts["output_size_in_bytes"] = needs.outputs;
  facts["temp_size_in_bytes"] = needs.temporaries;
  return facts;
}

/// Warns once for each client that its pinned memory could not be locked.
void warn_of_unlocked_pages(const Memory& memory) {
  const PageLockedAllocator* pages = memory.page_locked();
  if (!pages || pages->unlocked_bytes() == 0 || !memory.client().take_unlocked_warning()) return;
  const nb::handle category = module_attribute(warning_class, "devrt.errors", "DevrtWarning");
  const char* text =
      "memory of kind 'pinned_host' is used that is not locked into RAM, because the system lets "
      "this process lock no more. It works as plain memory; memory_stats() counts it as "
      "bytes_not_page_locked. Raise RLIMIT_MEMLOCK (ulimit -l), or grant CAP_IPC_LOCK.";
  const auto warn = [&]() noexcept { return PyErr_WarnEx(category.ptr(), text, 1); };
  if (warn() != 0) throw nb::python_error();
}

}  // namespace

nb::dict to_dict(const MemorySnapshot& snapshot) {
  nb::dict stats;
  for (const auto& [key, value] : snapshot.items()) stats[key] = value;
  return stats;
}

nb::dict memory_stats(const Memory& memory) {
  nb::dict stats = to_dict(memory.stats().snapshot());
  std::vector<AllocatorFact> facts;
  {
    GilRelease released;  // an allocator may ask the system
    facts = memory.facts();
  }
  for (const AllocatorFact& fact : facts) stats[fact.name] = fact.value;
  return stats;
}

nb::object wrap(Ref<Buffer> buffer) {
  const Memory& memory = *buffer->memory();
  if (memory.client().notes_calls(buffer->bytes())) buffer->note_call_site(note_calls());
  if (memory.page_locked()) [[unlikely]]
    warn_of_unlocked_pages(memory);
  return wrap_known(std::move(buffer));
}

nb::object heap_profile(Client& client) {
  drain_release_queue();
  client.check_open("heap_profile");
  const std::vector<Ref<Buffer>> live = client.registry().snapshot();
  std::vector<LiveGroup> groups = group_live(std::span(live));
  for (LiveGroup& group : client.temporaries().groups()) groups.push_back(std::move(group));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string profile =
      heap_profile(groups, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  nb::dict named;
  named["mtime"] = 0;
  return apply_python(module_attribute(compress_function, "gzip", "compress"),
                      nb::make_tuple(nb::bytes(profile.data(), profile.size())), named);
}

nb::dict report_facts(const MemoryReport& report) {
  nb::dict facts;
  facts["requested"] = report.requested;
  facts["limit"] = report.limit;
  facts["memory_kind"] = nb::str(report.kind.c_str());
  facts["summary"] = to_dict(report.stats);
  facts["live_buffers"] = report.live_buffers;
  facts["live_bytes"] = report.live_bytes;
  nb::list largest;
  for (const LiveGroup& group : report.largest) largest.append(to_dict(group));
  facts["largest"] = std::move(largest);
  if (report.program) facts["program"] = to_dict(*report.program);
  return facts;
}

std::string report_text(const MemoryReport& report) {
  if (report.largest.empty()) return "\nNo buffer is alive.";
  std::string text = "\nThe largest of the " + std::to_string(report.live_buffers) +
                     " live buffers (" + std::to_string(report.live_bytes) + " bytes):";
  for (const LiveGroup& group : report.largest) {
    const std::string call_site = describe_call_site(group.call_site.get());
    text += "\n  " + std::to_string(group.bytes) + " bytes in " + std::to_string(group.count) +
            " of " + describe(group) + " on " + group.device + ", " + group.kind +
            (group.is_lent ? ", lent" : "") + (call_site.empty() ? "" : ", made at " + call_site);
  }
  return text;
}

}  // namespace devrt::native
