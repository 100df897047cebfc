#include "devrt/profile/heap_profile.hpp"
#include "fixtures.hpp"

using namespace devrt;
using harness::Floats;

namespace {

class FixedCallSite final : public AllocationSite {
 public:
  explicit FixedCallSite(std::vector<SiteFrame> frames) : frames_(std::move(frames)) {}
  const std::vector<SiteFrame>& frames() const override { return frames_; }

 private:
  const std::vector<SiteFrame> frames_;
};

Ref<native::Buffer> zeros(native::Client& client, const std::vector<std::int64_t>& shape,
                          const char* kind = "device") {
  static const std::vector<float> values(1 << 16);
  return harness::put(client.devices().front()->memory(kind), Floats(values, shape));
}

}  // namespace

TEST_CASE(report_groups_by_site_shape_and_memory) {
  const auto client = native::Client::make({});
  const auto call_site = Ref<AllocationSite>::adopt(new FixedCallSite({{"a.py", "f", 1, 2}}));
  std::vector<Ref<native::Buffer>> live;
  for (int i = 0; i < 3; ++i) live.push_back(zeros(*client, {10, 2}));
  live.push_back(zeros(*client, {20}));
  live.push_back(zeros(*client, {10, 2}, "unpinned_host"));
  live[0]->note_call_site(call_site.share());
  live[1]->note_call_site(call_site.share());
  live.push_back(client->clone(*live[2]));  // shares its storage
  live.push_back(zeros(*client, {100}));
  live.back()->remove();
  const std::vector<LiveGroup> groups = group_live(std::span<const Ref<native::Buffer>>(live));
  CHECK(groups.size() == 4);
  CHECK(groups[0].count == 2 && groups[0].bytes == 160 &&
        groups[0].call_site.get() == call_site.get());
  CHECK(describe(groups[0]) == "float32[10,2]" && groups[0].device == "cpu:0");
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  for (const LiveGroup& group : groups) {
    bytes += group.bytes;
    count += group.count;
  }
  CHECK(count == 6 && bytes == client->devices().front()->stats()->bytes_in_use());
}

TEST_CASE(report_comes_with_the_error_and_leaves_no_trace) {
  native::ClientOptions options;
  options.memory_limit = 1000;
  const auto client = native::Client::make(std::move(options));
  const Ref<native::Buffer> kept = zeros(*client, {200});
  const Status status = harness::status_of([&] { (void)zeros(*client, {51}); });
  CHECK(status.code() == StatusCode::kResourceExhausted && status.device() == "cpu:0");
  const MemoryReport& report = *status.report();
  CHECK(report.requested == 204 && report.limit == 1000 && report.live_bytes == 800);
  CHECK(report.largest.size() == 1 && report.largest[0].count == 1);
  CHECK(status.message().find("800 of the 1000 bytes") != std::string::npos);
  CHECK(client->budget()->used() == 800 && client->registry().size() == 1);
  CHECK(zeros(*client, {50})->bytes() == 200);
}

TEST_CASE(site_is_noted_once) {
  const auto client = native::Client::make({});
  const auto first = Ref<AllocationSite>::adopt(new FixedCallSite({}));
  const auto second = Ref<AllocationSite>::adopt(new FixedCallSite({}));
  Ref<native::Buffer> buffer = zeros(*client, {1});
  CHECK(!buffer->call_site());
  buffer->note_call_site({});
  buffer->note_call_site(first.share());
  buffer->note_call_site(second.share());
  CHECK(buffer->call_site() == first.get() && !first->is_unique() && second->is_unique());
  buffer.reset();
  CHECK(first->is_unique());
}

TEST_CASE(user_frame_is_the_innermost_outside_the_runtime) {
  const FixedCallSite call_site(
      {{"r.py", "put", 1, 2, true}, {"mine.py", "load", 3, 4}, {"m.py", "x", 5, 6}});
  CHECK(user_frame(&call_site)->file == "mine.py");
  const FixedCallSite inner({{"r.py", "put", 1, 2, true}});
  CHECK(user_frame(&inner)->file == "r.py" && !user_frame(nullptr));
}

TEST_CASE(pprof_message_is_byte_for_byte_as_the_schema_has_it) {
  PprofProfile profile;
  profile.add_sample_type("n", "u");
  const std::vector<SiteFrame> stack = {{"f.py", "g", 3, 300}};
  const std::int64_t value = 5;
  const std::pair<std::string_view, std::string> label{"k", "v"};
  profile.add_sample(stack, {&value, 1}, {&label, 1});
  const std::string expected(
      "\x0a\x04\x08\x01\x10\x02"                          // sample_type: n, u
      "\x2a\x0a\x08\x01\x10\x03\x18\x03\x20\x04\x28\x03"  // function 1: name, file, line 3
      "\x22\x09\x08\x01\x22\x05\x08\x01\x10\xac\x02"      // location 1: function 1, line 300
      "\x12\x0c\x0a\x01\x01\x12\x01\x05\x1a\x04\x08\x05\x10\x06"  // sample
      "\x48\x07"                                                  // time
      "\x70\x01"                                                  // default type
      "\x32\x00\x32\x01n\x32\x01u\x32\x01g\x32\x04"
      "f.py"
      "\x32\x01k\x32\x01v",
      70);
  CHECK(profile.finish(7, "n") == expected);
}
