// Calls of executables.
#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execution/custom_calls.hpp"
#include "execution/executable.hpp"
#include "execution/outputs.hpp"

namespace devrt::native {

namespace {

using Context = Ref<pjrt::ffi::HoldingContext>;

/// Who else would use the arguments of a program, or wait for a shard that one has failed.
struct Others {
  bool are_shards;     ///< of this call, which talk to each other
  bool are_processes;  ///< which take part
  bool are_functions;  ///< that the program calls
};

/// Returns whether the host has to wait for an argument: what fails late must not have been used.
bool is_awaited(const Engine& engine, Buffer* const& argument, Others others) {
  const ReadyEvent& ready = argument->ready();
  const bool is_ordered = platform().engine.donates_views && ready.source();
  if (!is_ordered)
    return others.are_shards || (others.are_processes && platform().engine.donates_views);
  if (const auto* output = dynamic_cast<const EngineEvent*>(ready.source())) {
    if (output->call().is_known_to_engine && !others.are_processes) return false;
  }
  if (!others.are_processes && !others.are_functions) return false;
  const Dependencies dependencies = engine.dependencies_of({&argument, 1});
  return std::ranges::any_of(dependencies, [&](const auto& each) {
    const auto* end = dynamic_cast<const ProgramEnd*>(each.get());
    return others.are_functions || !end || !end->call().is_of_job;
  });
}

/// Waits for the work that makes the arguments and throws its error.
void await_arguments(const Client& client, const Engine& engine,
                     std::span<const std::span<Buffer* const>> arguments,
                     const std::string& program, Others others) {
  for (const std::span<Buffer* const> shard : arguments) {
    for (std::size_t i = 0; i < shard.size(); ++i) {
      if (!is_awaited(engine, shard[i], others)) continue;
      const Status status = client.wait(shard[i]->ready());
      if (status.ok()) continue;
      throw FailedArgument(Status(status.code(), "execute failed: argument " + std::to_string(i) +
                                                     " of program '" + program +
                                                     "' could not be made: " + status.message())
                               .because(status.reason())
                               .during("execute")
                               .on(status.device()));
    }
  }
}

/// Takes over the outputs of every shard, also where those of one cannot be: all are under way.
template <class Finish>
void finish_all(std::span<pjrt::Event> events, const Finish& finish) {
  std::exception_ptr failure;
  for (std::size_t i = 0; i < events.size(); ++i) {
    try {
      finish(i, std::move(events[i]));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Says which program failed as the engine started it, and why.
StatusError describe_failure(const Status& reported, const std::string& program,
                             std::span<const Device* const> devices) {
  const Status status = pjrt::with_known_code(reported);
  if (!status.operation().empty()) return StatusError(status);  // devrt's own message
  if (reported.reason() == Reason::kClosed) {
    return StatusError(Status(status.code(), "execute failed: the " + platform().name +
                                                 " client was closed as program '" + program +
                                                 "' began. Make a new client.")
                           .because(Reason::kClosed)
                           .during("execute"));
  }
  const std::string message = "execute failed: program '" + program + "': " + status.message();
  return StatusError(describe_loss(Status(status.code(), message).during("execute"), devices));
}

}  // namespace

void Executable::execute(std::span<const std::span<Buffer* const>> arguments,
                         std::span<Ref<Buffer>> results, std::int64_t stream,
                         std::span<ReadyEvent> ended) const {
  if (pjrt::is_in_callback()) [[unlikely]] {
    for (const Device* device : devices_) check_not_called_from(*device, "execute");
  }
  for (Retries retries;;) {
    Attempt attempt;
    try {
      if (is_simple_ && stream == 0 && ended.empty()) [[likely]] {
        return start_simple(arguments.front(), results, attempt.has_begun);
      }
      return start(arguments, results, stream, ended, attempt);
    } catch (const FailedArgument& error) {
      throw describe_failure(error.status(), signature_->name, devices_);
    } catch (const StatusError& error) {
      const Status status = pjrt::with_known_code(error.status());
      const bool is_out_of_memory = status.code() == StatusCode::kResourceExhausted;
      if (is_out_of_memory && !attempt.has_begun &&
          wait_for_others(status, attempt.copied, retries)) {
        continue;
      }
      if (is_out_of_memory) throw_lack_of_memory(status, arguments.size());
      throw describe_failure(error.status(), signature_->name, devices_);
    }
  }
}

bool Executable::wait_for_others(const Status& why, const CopiedBytes& copied,
                                 Retries& retries) const {
  const MemoryReport* report = why.report();
  if (report && report->requested > report->limit) return false;
  if (report && report->is_of_limit) {
    const ByteBudget& budget = *limited_memory(report->device).budget();
    // The copies were given back, and are made again.
    const std::size_t bytes = static_cast<std::size_t>(report->requested) + copied.of(budget);
    if (bytes > budget.limit()) return false;
    if (client_->wait_for_programs(budget, bytes)) return true;
    // Others gave them back meanwhile, and others may take them again.
    if (budget.left() >= bytes && retries.at_once++ < kMostRetriesAtOnce) return true;
  }
  // What was deleted meanwhile is freed with the end of what still uses it.
  if (std::exchange(retries.has_waited, true) || pjrt::is_in_callback()) return false;
  client_->wait_for_programs_to_end();
  client_->wait_for_memory();
  if (report) return true;
  // A plugin with memory of its own may lack what the client's allocators keep.
  for (Device* device : devices_) device->default_memory().trim();
  return true;
}

void Executable::throw_lack_of_memory(const Status& why, std::size_t devices) const {
  const MemoryReport* report = why.report();
  if (!report) {
    const ProgramNeeds needs = needs_with_outputs(*signature_, devices);
    throw StatusError(devices_.front()->default_memory().describe_lack(needs, why));
  }
  if (!report->program) {
    throw StatusError(why.reworded("execute failed: an argument of program '" + signature_->name +
                                   "' could not be copied: " + why.message()));
  }
  if (!report->is_of_limit) return;  // there is more
  throw StatusError(limited_memory(report->device).describe_limit(*report));
}

const Memory& Executable::limited_memory(std::string_view device) const {
  const auto is_meant = [&](const Device* each) { return each->name() == device; };
  const auto found = std::ranges::find_if(devices_, is_meant);
  return (found == devices_.end() ? devices_.front() : *found)->default_memory();
}

Ref<pjrt::ffi::HoldingContext> Executable::context_of(bool is_together, std::size_t shard,
                                                      std::uint64_t number) const {
  if (signature_->custom_calls.empty()) return {};
  std::vector<const void*> devices(devices_.begin(), devices_.end());
  if (!is_together) devices = {devices_[shard]};
  return pjrt::ffi::HoldingContext::make(engine_->client().shared_api(), is_together,
                                         std::move(devices), number);
}

void Executable::reserve(std::span<Reservation> reservations,
                         std::span<const std::int64_t> outputs) const {
  const auto reserve_for = [&](const Memory& memory, std::size_t first, std::size_t count) {
    ProgramNeeds needs = needs_of(*signature_, count);
    for (std::size_t i = first; i < first + count; ++i) needs.outputs += outputs[i];
    BudgetShare all = memory.reserve(needs);
    for (std::size_t i = first; i < first + count; ++i) {
      reservations[i].outputs = all.split(static_cast<std::size_t>(outputs[i]));
      if (temporaries_.empty()) continue;
      reservations[i].temporaries =
          HeldTemporaries(temporaries_[i], all.split(signature_->temp_bytes));
    }
  };
  const auto budget_of = [](const Device* device) -> const ByteBudget* {
    return device->default_memory().budget().get();
  };
  const ByteBudget* const first = budget_of(devices_.front());
  if (std::ranges::all_of(devices_, [&](auto* each) { return budget_of(each) == first; })) {
    return reserve_for(devices_.front()->default_memory(), 0, reservations.size());
  }
  for (std::size_t i = 0; i < reservations.size(); ++i) {
    reserve_for(devices_[i]->default_memory(), i, 1);
  }
}

void Executable::take_slots(std::span<const std::size_t> devices,
                            std::span<pjrt::InFlight::Slot> slots) const {
  engine_->client().in_flight().enter(devices, slots, [this](const pjrt::InFlight::Wait& wait) {
    client_->check_signals();
    if (wait.stalled < client_->execution_timeout()) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait.stalled).count();
    const std::string device = client_->local_devices()[engine_->local_of(wait.device)]->name();
    throw StatusError(
        Status(StatusCode::kDeadlineExceeded,
               "execute failed: program '" + signature_->name + "' waited for a slot on " + device +
                   ", where " + std::to_string(wait.in_flight) +
                   " executions are in flight, and none has ended for " + std::to_string(seconds) +
                   " seconds. Find the one that does not end; where programs take "
                   "longer, raise execution_timeout (option " +
                   platform().name + "_execution_timeout).")
            .during("execute")
            .on(device));
  });
}

void Executable::start_simple(std::span<Buffer* const> arguments, std::span<Ref<Buffer>> results,
                              bool& has_begun) const {
  const Ref<pjrt::Executable> loaded = this->loaded("execute");
  SmallArray<Ref<pjrt::Buffer>, kFew> views(arguments.size());
  SmallArray<PJRT_Buffer*, kFew> raw(arguments.size());
  SmallArray<PJRT_Buffer*, kFew> outputs(results.size());
  std::vector<Ref<Storage>> storages;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    views[i] = engine_->view(*arguments[i]);
    raw[i] = views[i]->get();
    if (holds_storages()) storages.push_back(arguments[i]->storage());
  }
  pjrt::Event done = loaded->execute_one(0, {raw.span(), outputs.span(), {}});
  has_begun = true;
  take_outputs(outputs.span(), std::move(done),
               {*engine_,
                signature_,
                *devices_.front(),
                output_memories(0),
                results,
                views.span(),
                {},
                loaded->devices().front()},
               {.storages = std::move(storages),
                .dependencies = engine_->dependencies_of(arguments),
                .call = {.number = next_call_number()}});
  engine_->counters().executions.fetch_add(1, std::memory_order_relaxed);
}

void Executable::start(std::span<const std::span<Buffer* const>> arguments,
                       std::span<Ref<Buffer>> results, std::int64_t stream,
                       std::span<ReadyEvent> ended, Attempt& attempt) const {
  const Ref<pjrt::Executable> loaded = this->loaded("execute");
  const std::size_t num_outputs = signature_->outputs.size();
  const bool is_together =
      arguments.size() > 1 && (signature_->is_collective || !engine_->takes_shards_apart());
  await_arguments(*client_, *engine_, arguments, signature_->name,
                  {is_together, spans_processes(), !signature_->custom_calls.empty()});
  SmallArray<pjrt::InFlight::Slot, 1> slots(arguments.size());
  if (!is_short()) take_slots(loaded->devices(), slots.span());
  SmallArray<pjrt::Running::Note, 1> notes(arguments.size());
  if (!is_short()) {
    for (std::size_t i = 0; i < notes.size(); ++i) {
      notes[i] = pjrt::Running::of_process().add(signature_, devices_[i]->name());
    }
  }
  SmallArray<Shard, 1> shards(arguments.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].prepare(*engine_, arguments[i], *signature_);
    if (is_together && i > 0) {  // they fail together
      add_dependencies(shards[i].dependencies, shards[0].dependencies);
    }
  }
  StreamOrder::Slot slot =
      engine_->streams().wait(stream, device_numbers_, [this] { client_->check_signals(); });
  Donations donations(*engine_, attempt.copied);
  std::vector<std::int64_t> kept;
  if (signature_->has_donation) {
    kept = donations.claim_all(*signature_, arguments, shards.span());
  }
  const auto targets = [&](std::size_t i) -> OutputTargets {
    return {*engine_,
            signature_,
            *devices_[i],
            output_memories(i),
            results.subspan(i * num_outputs, num_outputs),
            shards[i].views->span(),
            kept,
            loaded->devices()[i]};
  };
  SmallArray<Reservation, 1> reservations(arguments.size());
  if (reserves_) [[unlikely]] {
    SmallArray<std::int64_t, 1> bytes(reservations.size());
    for (std::size_t i = 0; i < reservations.size(); ++i) bytes[i] = bytes_of_outputs(targets(i));
    reserve(reservations.span(), bytes.span());
  }
  const bool waits_for_others = is_together || spans_processes();
  const ProgramCall call{.number = next_call_number(), .is_of_job = is_of_job_};
  Context context = context_of(waits_for_others, 0, call.number);
  // Whatever the engine refuses of one device's program without effects may be tried again.
  attempt.has_begun = shards.size() > 1 || context || signature_->has_donation;
  const auto finish = [&](std::size_t i, pjrt::Event done) {
    attempt.has_begun = true;
    ReadyEvent event =
        take_outputs(shards[i].outputs->span(), std::move(done), targets(i),
                     {std::move(notes[i]), std::move(slots[i]), std::move(reservations[i]),
                      context ? context.share() : Context(), std::move(shards[i].storages),
                      shards[is_together ? 0 : i].dependencies, call, waits_for_others});
    shards[i].has_ended = event.is_ready();
    if (!ended.empty()) ended[i] = event;
    slot.begun(i, std::move(event));
  };
  if (is_together) {
    std::vector<pjrt::ShardCall> calls;
    for (Shard& shard : shards) calls.push_back(shard.call(kept));
    std::vector<pjrt::Event> events =
        loaded->execute_all(calls, context ? context->get() : nullptr);
    donations.commit();
    finish_all(events, finish);
  } else {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (i > 0) context = context_of(false, i, call.number);  // each shard has its own errors
      finish(i, loaded->execute_one(i, shards[i].call(kept), context ? context->get() : nullptr));
    }
    donations.commit();
  }
  engine_->streams().finish(std::move(slot));
  engine_->counters().executions.fetch_add(static_cast<std::int64_t>(shards.size()),
                                           std::memory_order_relaxed);
}

}  // namespace devrt::native
