#include "gpu_simulator/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace devrt::gpu_simulator {
namespace {

constexpr std::size_t kWindow = std::size_t{32} << 30;
constexpr std::size_t kAlignment = 512;  // what the drivers give
constexpr std::size_t kGap = 4096;       // an overrun meets no other allocation
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPoisoned = std::size_t{32} << 20;  // how many freed bytes stay poisoned
constexpr std::size_t kRetired = 4096;  // how many freed allocations reports still name

std::byte* map(std::size_t bytes, int protection) {
  void* const got =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  madvise(got, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(got);
}

}  // namespace

Window::Window(std::size_t bytes, bool host_can_read) : bytes_(bytes) {
  data_ = map(bytes, PROT_READ | PROT_WRITE);
  try {
    if (!host_can_read) shield_ = map(bytes, PROT_NONE);
  } catch (...) {
    munmap(data_, bytes);
    throw;
  }
  begin_ = reinterpret_cast<Address>(shield_ ? shield_ : data_);
  next = begin_;
}

Window::~Window() {
  munmap(data_, bytes_);
  if (shield_) munmap(shield_, bytes_);
}

void Window::release(Address begin, std::size_t bytes) const noexcept {
  static_assert(kGap >= kPage);  // no other allocation has bytes in its pages
  const Address first = begin & ~(kPage - 1);
  const Address last = (begin + bytes + kPage - 1) & ~(kPage - 1);
  madvise(data(first), last - first, MADV_DONTNEED);
}

Memory::Memory(int devices) {
  for (int i = 0; i < devices; ++i) windows_.push_back(std::make_unique<Window>(kWindow, false));
  windows_.push_back(std::make_unique<Window>(kWindow, true));
}

Address Memory::find_gap(Window& window, std::size_t bytes) {
  bool wrapped = false;
  Address at = window.next;
  while (true) {
    at = (at + kAlignment - 1) & ~(kAlignment - 1);
    if (at + bytes > window.end()) {
      if (wrapped || bytes > kWindow) throw std::bad_alloc();
      wrapped = true;
      at = window.begin();
      continue;
    }
    auto other = allocations_.upper_bound(at + bytes);
    if (other == allocations_.begin() || (--other)->second->end() <= at) return at;
    if (other->second->is_retired) {
      allocations_.erase(other);
    } else {
      at = other->second->end() + kGap;
    }
  }
}

AllocationRef Memory::make(Space space, int device, std::size_t bytes, MomentRef moment) {
  const bool of_host = space == Space::kPinned || space == Space::kManaged;
  Window& window = *windows_[of_host ? windows_.size() - 1 : static_cast<std::size_t>(device)];
  auto made = std::make_shared<Allocation>();
  made->id = ++last_id_;
  made->space = space;
  made->device = device;
  made->begin = find_gap(window, bytes + kGap);
  made->bytes = bytes;
  made->data = window.data(made->begin);
  made->made = std::move(moment);
  window.next = made->end() + kGap;
  allocations_[made->begin] = made;
  return made;
}

AllocationRef Memory::take(Address begin, std::size_t bytes, MomentRef moment) {
  auto taken = std::make_shared<Allocation>();
  taken->id = ++last_id_;
  taken->space = Space::kRegistered;
  taken->begin = begin;
  taken->bytes = bytes;
  taken->data = reinterpret_cast<std::byte*>(begin);
  taken->made = std::move(moment);
  taken->written.add(0, bytes);
  allocations_[begin] = taken;
  return taken;
}

AllocationRef Memory::find(Address address) const {
  auto at = allocations_.upper_bound(address);
  if (at == allocations_.begin()) return nullptr;
  --at;
  return address < at->second->end() ? at->second : nullptr;
}

bool Memory::is_device_address(Address address) const noexcept {
  return std::any_of(windows_.begin(), windows_.end() - 1, [&](const auto& window) {
    return window->begin() <= address && address < window->end();
  });
}

bool Memory::overlaps(Address begin, std::size_t bytes) const {
  auto at = allocations_.lower_bound(begin + bytes);
  while (at != allocations_.begin()) {
    --at;
    if (!at->second->freed) return at->second->end() > begin;
  }
  return false;
}

const Window& Memory::window_of(const Allocation& allocation) const {
  return **std::ranges::find_if(windows_, [&](const auto& window) {
    return window->begin() <= allocation.begin && allocation.begin < window->end();
  });
}

void Memory::retire(const AllocationRef& allocation) {
  allocation->is_retired = true;
  std::memset(allocation->data, kFreedPoison, allocation->bytes);
  allocation->written = {};
  allocation->accesses = {};  // whatever comes now is a use after free
  poisoned_.push_back(allocation);
  poisoned_bytes_ += allocation->bytes;
  retired_.push_back(allocation);
  while (poisoned_bytes_ > kPoisoned || poisoned_.size() > kRetired) {
    const AllocationRef oldest = std::move(poisoned_.front());
    poisoned_.pop_front();
    poisoned_bytes_ -= oldest->bytes;
    if (is_known(*oldest)) window_of(*oldest).release(oldest->begin, oldest->bytes);
  }
  while (retired_.size() > kRetired) {
    if (is_known(*retired_.front())) allocations_.erase(retired_.front()->begin);
    retired_.pop_front();
  }
}

bool Memory::is_known(const Allocation& allocation) const {
  const auto at = allocations_.find(allocation.begin);
  return at != allocations_.end() && at->second.get() == &allocation;
}

std::size_t Memory::count(Space space) const {
  return static_cast<std::size_t>(std::ranges::count_if(allocations_, [&](const auto& each) {
    return each.second->space == space && !each.second->freed;
  }));
}

std::vector<AllocationRef> Memory::alive(int device) const {
  std::vector<AllocationRef> found;
  for (const auto& [begin, each] : allocations_) {
    if (each->space == Space::kDevice && each->device == device && !each->freed) {
      found.push_back(each);
    }
  }
  return found;
}

}  // namespace devrt::gpu_simulator
