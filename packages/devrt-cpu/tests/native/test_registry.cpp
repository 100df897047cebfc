#include "devrt/base/live_registry.hpp"

#include "fixtures.hpp"

using namespace devrt;
using namespace harness;

namespace {

struct Item final : RefCounted<Item>, LiveLink {
  Item(LiveRegistry<Item>& home, int number) : registry(home), value(number) {
    added = registry.add(*this);
  }
  ~Item() {
    registry.remove(*this);
    value = -1;
  }
  LiveRegistry<Item>& registry;
  int value;
  bool added = false;
};

Ref<Item> make(LiveRegistry<Item>& registry, int value) {
  return Ref<Item>::adopt(new Item(registry, value));
}

}  // namespace

TEST_CASE(registry_keeps_order) {
  LiveRegistry<Item> registry;
  Ref<Item> a = make(registry, 1);
  Ref<Item> b = make(registry, 2);
  Ref<Item> c = make(registry, 3);
  registry.remove(*b);
  registry.remove(*b);
  const std::vector<Ref<Item>> live = registry.snapshot();
  CHECK(live.size() == 2 && live[0].get() == a.get() && live[1].get() == c.get());
  c.reset();
  CHECK(registry.size() == 2);  // the snapshot still holds it
}

TEST_CASE(registry_closed_takes_no_more) {
  LiveRegistry<Item> registry;
  const Ref<Item> a = make(registry, 1);
  registry.close();
  const Ref<Item> b = make(registry, 2);
  CHECK(a->added && !b->added);
  CHECK(registry.size() == 1);
}

TEST_CASE(registry_is_read_while_items_come_and_go) {
  LiveRegistry<Item> registry;
  std::atomic<int> running{2};
  in_threads(
      2,
      [&](std::size_t) {
        std::vector<Ref<Item>> kept;
        for (int i = 0; i < 5000; ++i) {
          kept.push_back(make(registry, i));
          if (kept.size() > 8) kept.erase(kept.begin());
        }
        --running;
      },
      [&] {
        while (running > 0) {
          for (const Ref<Item>& item : registry.snapshot()) CHECK(item->value >= 0);
        }
      });
  CHECK(registry.size() == 0);
}
