// Reservations in the memories of a client: what holds them, the waits, the out-of-memory errors.
#include <algorithm>
#include <utility>

#include "client/client.hpp"
#include "devrt/memory/memory_report.hpp"
#include "execution/engine.hpp"
#include "execution/outputs.hpp"

namespace devrt::native {

namespace {

constexpr std::size_t kLargestGroups = 10;  // that an out-of-memory error names

void add_programs(Client& client, std::vector<LiveGroup>& groups) {
  for (LiveGroup& group : client.temporaries().groups()) groups.push_back(std::move(group));
  std::ranges::stable_sort(groups, std::ranges::greater(), &LiveGroup::bytes);
}

/// Returns a report of what was lacking, without what lives.
std::shared_ptr<MemoryReport> report_on(const Memory& memory, std::size_t bytes, bool is_of_limit) {
  auto report = std::make_shared<MemoryReport>();
  report->requested = static_cast<std::int64_t>(bytes);
  report->limit = memory.stats().bytes_limit();
  report->device = memory.device().name();
  report->kind = memory.kind();
  report->is_of_limit = is_of_limit;
  return report;
}

/// Returns whether the limit leaves fewer bytes.
bool is_beyond_limit(const Memory& memory, std::size_t bytes) noexcept {
  return memory.budget() && memory.budget()->left() < bytes;
}

/// Adds to the allocator's error what lives in the memory of the client.
Status describe_out_of_memory(const Memory& memory, std::shared_ptr<MemoryReport> report,
                              const Status& cause) {
  Client& client = memory.client();
  const std::vector<Ref<Buffer>> live = client.registry().snapshot();
  report->stats = memory.stats().snapshot();
  report->largest = group_live(std::span(live));
  for (const LiveGroup& group : report->largest) {
    report->live_buffers += group.count;
    report->live_bytes += group.bytes;
  }
  add_programs(client, report->largest);
  report->largest.resize(std::min(report->largest.size(), kLargestGroups));
  std::string message = cause.message() + " It is the " + std::string(memory.kind()) +
                        " memory of " + memory.device().name() + ".";
  if (const auto& budget = memory.budget()) {
    message += " The client's buffers and programs use " + std::to_string(budget->used()) +
               " of the " + std::to_string(budget->limit()) + " bytes that " + memory.limited_by() +
               " allows.";
  }
  const bool is_free = report->requested <= report->limit - report->stats.bytes_in_use;
  if (is_free && !report->is_of_limit) {
    message +=
        " So much is not in use, but held: by other processes or clients, or beside the arrays of "
        "an arena. client.defragment() gives back what can be.";
  }
  return Status(cause.code(), std::move(message))
      .during(cause.operation())
      .on(memory.device().name())
      .with(std::move(report));
}

Status describe_needs(const ProgramNeeds& needs) {
  std::string message = "execute failed: out of memory: cannot allocate " +
                        std::to_string(needs.outputs) + " bytes of outputs and " +
                        std::to_string(needs.temporaries) + " of temporaries for program '" +
                        needs.name + "'";
  if (needs.devices > 1) message += ", on " + std::to_string(needs.devices) + " devices together";
  return Status(StatusCode::kResourceExhausted,
                message + ", beside " + std::to_string(needs.arguments) + " of arguments.")
      .during("execute");
}

/// Returns an error of memory that the engine reported, with what devrt knows.
Status describe_reported(const Memory& memory, const ProgramNeeds& needs,
                         const std::string& message, const Status& reported) {
  const Status cause(StatusCode::kResourceExhausted,
                     message + " The compiler's plugin reports: " + reported.message() + ".");
  auto report =
      report_on(memory, static_cast<std::size_t>(needs.outputs + needs.temporaries), false);
  report->program = needs;
  return describe_out_of_memory(memory, std::move(report), Status(cause).during("execute"));
}

}  // namespace

ProgramNeeds needs_of(const pjrt::Signature& program, std::size_t devices) {
  ProgramNeeds needs{program.name, devices};
  const auto count = static_cast<std::int64_t>(devices);
  for (const pjrt::Tensor& tensor : program.parameters) {
    needs.arguments += count * static_cast<std::int64_t>(tensor.bytes);
  }
  needs.temporaries = count * static_cast<std::int64_t>(program.temp_bytes);
  return needs;
}

ProgramNeeds needs_with_outputs(const pjrt::Signature& program, std::size_t devices) {
  ProgramNeeds needs = needs_of(program, devices);
  for (const pjrt::Tensor& tensor : program.outputs) {
    const bool is_own = tensor.donor < 0;
    if (is_own) needs.outputs += static_cast<std::int64_t>(devices * tensor.bytes);
  }
  return needs;
}

Ref<Storage> Memory::allocate(std::size_t bytes) const { return allocate(bytes, true); }
Ref<Storage> Memory::allocate_at_once(std::size_t bytes) const { return allocate(bytes, false); }

Ref<Storage> Memory::allocate(std::size_t bytes, bool waits_for_programs) const {
  const std::int64_t limit = stats_->bytes_limit();
  const bool fits = bytes <= static_cast<std::size_t>(limit);
  for (bool is_last = !fits;;) {
    try {
      Ref<Storage> storage = Storage::allocate(allocator_, bytes, alignment_);
      client().trim_to_limit();
      return storage;
    } catch (const StatusError& error) {
      if (error.status().code() != StatusCode::kResourceExhausted) throw;
      const bool is_of_limit = is_beyond_limit(*this, bytes);
      if (waits_for_programs && is_of_limit && client().wait_for_programs(*budget(), bytes)) {
        continue;
      }
      if (is_last) {
        throw StatusError(
            describe_out_of_memory(*this, report_on(*this, bytes, is_of_limit), error.status()));
      }
      if (waits_for_programs) client().wait_for_programs_to_end();
      client().wait_for_memory();
      is_last = true;
    }
  }
}

BudgetShare Memory::reserve(const ProgramNeeds& needs) const {
  const std::shared_ptr<ByteBudget>& budget = this->budget();
  const auto bytes = static_cast<std::size_t>(needs.outputs + needs.temporaries);
  if (!budget || bytes == 0) return {};
  const auto temporaries = static_cast<std::size_t>(needs.temporaries);
  const auto take = [&] {
    return temporaries ? client().temporaries().take(*budget, bytes, temporaries)
                       : budget->take(bytes);
  };
  for (bool is_last = bytes > budget->limit(); !take(); is_last = true) {
    if (is_last) {
      // What lives is looked for by `describe_limit`, if nothing comes of a wait for others.
      auto lack = report_on(*this, bytes, true);
      lack->program = needs;
      throw StatusError(describe_needs(needs).with(std::move(lack)));
    }
    client().wait_for_memory();
  }
  BudgetShare taken(budget, bytes);
  client().trim_to_limit();
  return taken;
}

Status Memory::describe_limit(const MemoryReport& lack) const {
  auto report = report_on(*this, static_cast<std::size_t>(lack.requested), true);
  report->program = lack.program;
  return describe_out_of_memory(*this, std::move(report), describe_needs(*lack.program));
}

Status Memory::describe_lack(const ProgramNeeds& needs, const Status& reported) const {
  return describe_reported(*this, needs, describe_needs(needs).message(), reported);
}

Status Memory::describe_end(const ProgramNeeds& needs, const Status& reported) const {
  const std::string message =
      "execute failed: program '" + needs.name + "' on " + device_.name() +
      " ended for lack of memory, its own or that of a program whose results it takes. It takes " +
      std::to_string(needs.outputs) + " bytes of outputs and " + std::to_string(needs.temporaries) +
      " of temporaries, beside " + std::to_string(needs.arguments) + " of arguments.";
  return describe_reported(*this, needs, message, reported);
}

void Client::wait_for_memory() const {
  const auto is_idle = [](const auto& device) { return device->queue().is_idle(); };
  // What was in flight when memory was lacking may have ended since.
  if (std::ranges::all_of(local_devices(), is_idle) && backend_->is_idle()) return;
  if (pjrt::is_in_callback()) return;
  wait_unlocked([this] {
    for (const auto& device : local_devices()) device->queue().drain();
    backend_->drain();
  });
}

void Client::wait_for_programs_to_end() const {
  const std::shared_ptr<Engine> engine = this->engine();
  if (!engine || pjrt::is_in_callback()) return;
  wait_unlocked(
      [&] { engine->client().in_flight().wait_for_earlier([this] { check_signals(); }); });
}

bool Client::wait_for_programs(const ByteBudget& budget, std::size_t bytes) const {
  // A handler of a custom call runs within a program, which would wait for itself.
  if (pjrt::is_in_callback() || !temporaries_->may_help(budget, bytes)) return false;
  bool has_memory = false;
  wait_unlocked(
      [&] { has_memory = temporaries_->wait(budget, bytes, [this] { check_signals(); }); });
  return has_memory;
}

}  // namespace devrt::native
