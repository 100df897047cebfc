// What a backend takes from the SDK: counted allocations, ordered work, events, one error type.
#include <nanobind/nanobind.h>

#include <cstring>
#include <memory>
#include <utility>

#include "devrt/async/ready_event.hpp"
#include "devrt/async/work_queue.hpp"
#include "devrt/base/status.hpp"
#include "devrt/buffers/storage.hpp"
#include "devrt/memory/allocator.hpp"
#include "devrt/memory/recycling_allocator.hpp"

namespace nb = nanobind;

namespace {

/// A memory of 1 MiB whose blocks are filled by a queue of its own.
class Filler {
 public:
  /// Fills a block on the queue, waits for it, and returns its bytes.
  nb::bytes fill(std::size_t size, int value) {
    devrt::Ref<devrt::Storage> storage = devrt::Storage::allocate(allocator_, size);
    {
      nb::gil_scoped_release released;
      devrt::ReadyPromise promise;
      const devrt::ReadyEvent ready = promise.event();
      queue_.enqueue([promise = std::move(promise), target = storage.share(), value]() mutable {
        std::memset(target->data(), value, target->bytes());
        target.reset();
        promise.set();
      });
      devrt::raise_if_error(ready.wait());
    }
    return nb::bytes(storage->data(), storage->bytes());
  }

  std::int64_t bytes_in_use() const { return stats_->bytes_in_use(); }
  std::int64_t bytes_reserved() const { return reserved_->bytes(); }
  void trim() { cache_->trim(); }

 private:
  static constexpr std::int64_t kMiB = 1 << 20;

  const std::shared_ptr<devrt::BlockCache> cache_ = std::make_shared<devrt::BlockCache>(kMiB);
  const std::shared_ptr<devrt::ReservedBytes> reserved_ = std::make_shared<devrt::ReservedBytes>();
  const std::shared_ptr<devrt::MemoryStats> stats_ =
      std::make_shared<devrt::MemoryStats>(kMiB, nullptr, reserved_);
  const std::shared_ptr<devrt::HostAllocator> allocator_ =
      std::make_shared<devrt::StatisticsAllocator>(
          std::make_shared<devrt::RecyclingAllocator>(std::make_shared<devrt::AlignedAllocator>(),
                                                      cache_, reserved_, 4096),
          stats_);
  devrt::WorkQueue queue_{"sdk-example", 8};
};

}  // namespace

NB_MODULE(_sdk_example, module) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const devrt::StatusError& error) {
      const devrt::Status& status = error.status();
      nb::object made =
          nb::module_::import_("devrt.errors")
              .attr("from_status")(static_cast<int>(status.code()), status.message().c_str(),
                                   nb::arg("operation") = status.operation().c_str());
      PyErr_SetObject(made.type().ptr(), made.ptr());
    }
  });
  nb::class_<Filler>(module, "Filler")
      .def(nb::init<>())
      .def("fill", &Filler::fill)
      .def("trim", &Filler::trim)
      .def_prop_ro("bytes_in_use", &Filler::bytes_in_use)
      .def_prop_ro("bytes_reserved", &Filler::bytes_reserved);
}
