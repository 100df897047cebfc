// Reading of protocol buffers' wire format, as far as XLA's messages need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "devrt/base/status.hpp"

namespace devrt::pjrt {

/// One field of a message: a number, or bytes that the message owns.
struct ProtoField {
  std::uint32_t number = 0;
  bool is_bytes = false;
  std::uint64_t value = 0;
  std::string_view bytes;

  std::int64_t as_int() const noexcept { return static_cast<std::int64_t>(value); }
};

/// Walks over the fields of a message; throws DATA_LOSS where it is malformed.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) noexcept : rest_(message) {}

  /// Moves to the next field; returns false at the end.
  bool next(ProtoField& field) {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = {};
    field.number = static_cast<std::uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.is_bytes = true;
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        throw malformed();
    }
    return true;
  }

  /// Reads a number in base 128.
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (!(byte & 0x80)) return value;
    }
    throw malformed();
  }

  bool is_done() const noexcept { return rest_.empty(); }

 private:
  static StatusError malformed() {
    return StatusError(Status(StatusCode::kDataLoss,
                              "A message of the plugin cannot be read: it ends within a field, or "
                              "a field has an unknown wire type."));
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) throw malformed();
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(static_cast<std::size_t>(size));
    return taken;
  }

  std::string_view rest_;
};

/// Appends the numbers of a repeated field, which may be packed or not.
inline void append_ints(const ProtoField& field, std::vector<std::int64_t>& to) {
  if (!field.is_bytes) {
    to.push_back(field.as_int());
    return;
  }
  for (ProtoReader packed(field.bytes); !packed.is_done();) {
    to.push_back(static_cast<std::int64_t>(packed.varint()));
  }
}

/// Calls `visit` with each field of a message.
template <class Visit>
void for_each_field(std::string_view message, const Visit& visit) {
  ProtoReader reader(message);
  for (ProtoField field; reader.next(field);) visit(field);
}

}  // namespace devrt::pjrt
