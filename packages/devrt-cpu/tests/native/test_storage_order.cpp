#include "devrt/buffers/storage_order.hpp"

#include "fixtures.hpp"

using namespace devrt;

TEST_CASE(an_order_gives_the_strides) {
  const Dims shape{2, 3, 4};
  const auto strides = [&](std::initializer_list<std::int64_t> order) {
    const Dims dims = ordered_strides(shape.span(), 2, Dims(order).span());
    return std::vector<std::int64_t>(dims.data(), dims.data() + dims.size());
  };
  CHECK((strides({2, 1, 0}) == std::vector<std::int64_t>{24, 8, 2}));
  CHECK((strides({0, 1, 2}) == std::vector<std::int64_t>{2, 4, 12}));
  CHECK((strides({1, 2, 0}) == std::vector<std::int64_t>{24, 2, 6}));
  CHECK((strides({}) == std::vector<std::int64_t>{24, 8, 2}));
}

TEST_CASE(row_major_is_distinguished_from_other_orders) {
  CHECK(is_row_major({}));
  CHECK(is_row_major(Dims{0}.span()));
  CHECK(is_row_major(Dims{2, 1, 0}.span()));
  CHECK(!is_row_major(Dims{0, 1}.span()));
}

TEST_CASE(contiguity_ignores_extents_of_one_and_empty_arrays) {
  CHECK(is_contiguous(Dims{3, 1}.span(), Dims{4, 999}.span(), 4, false));
  CHECK(is_contiguous(Dims{3, 1}.span(), Dims{4, 999}.span(), 4, true));
  CHECK(is_contiguous(Dims{0, 5}.span(), Dims{7, 7}.span(), 4, false));
  CHECK(is_contiguous(Dims{2, 3}.span(), Dims{4, 8}.span(), 4, true));
  CHECK(!is_contiguous(Dims{2, 3}.span(), Dims{4, 8}.span(), 4, false));
}

TEST_CASE(a_buffer_is_stored_in_the_order_requested_and_so_are_its_copies) {
  auto client = native::Client::make({});
  native::Memory& memory = client->devices()[0]->default_memory();
  const float columns[] = {0, 3, 1, 4, 2, 5};
  const Dims order{0, 1};
  const harness::Floats source({0, 1, 2, 3, 4, 5}, {2, 3});
  const Ref<native::Buffer> put = harness::put(memory, source, {.order = order.span()});
  const Ref<native::Buffer> copied = client->copy(*put, memory, false);
  const Ref<native::Buffer> cloned = client->clone(*put);
  for (const native::Buffer* buffer : {put.get(), copied.get(), cloned.get()}) {
    CHECK(buffer->ready().wait().ok());
    CHECK(std::memcmp(buffer->storage()->data(), columns, sizeof columns) == 0);
    CHECK(buffer->order().size() == 2 && buffer->order()[0] == 0);
    CHECK(buffer->shape()[0] == 2);
  }
}

TEST_CASE(nodes_may_have_different_numbers_of_devices) {
  native::ClientOptions options;
  options.num_devices = 3;
  options.node_id = 1;
  options.num_nodes = 3;
  const native::NodesExchange exchange = [](std::span<const native::DeviceFacts> local) {
    CHECK(local.size() == 3);
    std::vector<native::NodeFacts> nodes(3);
    nodes[0].devices = {{0, "a"}, {4, "b"}};
    nodes[1].devices.resize(3);
    nodes[2].devices.resize(1);
    return nodes;
  };
  auto client = native::Client::make(options, exchange);
  CHECK(client->devices().size() == 6);
  CHECK(client->local_devices().size() == 3);
  CHECK(client->local_devices()[0]->id() == 2);
  CHECK(client->devices()[5]->process_index() == 2);
  CHECK(client->devices()[5]->local_id() == 0);
  CHECK(!client->devices()[1]->is_addressable());
  CHECK(client->devices()[1]->facts().kind == "b");
  CHECK(client->devices()[1]->facts().local_hardware_id == 4);

  const native::NodesExchange short_one = [](auto) { return std::vector<native::NodeFacts>(2); };
  CHECK(harness::status_of([&] { native::Client::make(options, short_one); }).code() ==
        StatusCode::kInvalidArgument);
}
