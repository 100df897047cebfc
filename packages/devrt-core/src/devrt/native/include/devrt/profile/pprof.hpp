// Writes profiles in the protobuf form that pprof reads (profile.proto); not compressed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "devrt/memory/allocation_site.hpp"

namespace devrt {

namespace detail {

/// A protobuf message under construction.
class ProtoMessage {
 public:
  void add(int field, std::uint64_t value) {
    if (value == 0) return;  // the default
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
  }
  void add(int field, std::string_view bytes) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(bytes.size());
    data_.append(bytes);
  }
  void add(int field, const ProtoMessage& message) { add(field, std::string_view(message.data_)); }

  /// Adds a packed list: of a list, zeros count too.
  template <class Integer>
  void add_packed(int field, std::span<const Integer> values) {
    ProtoMessage list;
    for (const Integer value : values) list.varint(static_cast<std::uint64_t>(value));
    add(field, list);
  }

  std::string take() { return std::move(data_); }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) data_ += static_cast<char>(value | 128);
    data_ += static_cast<char>(value);
  }

  std::string data_;
};

}  // namespace detail

/// Collects samples and the locations they belong to. The first sample type is what pprof shows
/// unless `default_type` names another.
class PprofProfile {
 public:
  using Labels = std::span<const std::pair<std::string_view, std::string>>;

  PprofProfile() { (void)text(""); }  // index 0 must be the empty string

  void add_sample_type(std::string_view type, std::string_view unit) {
    detail::ProtoMessage value_type;
    value_type.add(1, text(type));
    value_type.add(2, text(unit));
    profile_.add(1, value_type);
  }

  /// Adds a sample of one value for each type, at a stack of calls with the innermost first.
  void add_sample(std::span<const SiteFrame> stack, std::span<const std::int64_t> values,
                  Labels labels) {
    std::vector<std::uint64_t> locations;
    locations.reserve(stack.size());
    for (const SiteFrame& frame : stack) locations.push_back(location(frame));
    detail::ProtoMessage sample;
    sample.add_packed(1, std::span<const std::uint64_t>(locations));
    sample.add_packed(2, values);
    for (const auto& [key, value] : labels) {
      detail::ProtoMessage label;
      label.add(1, text(key));
      label.add(2, text(value));
      sample.add(3, label);
    }
    profile_.add(2, sample);
  }

  /// Returns the message, and leaves nothing here.
  std::string finish(std::int64_t time_nanos, std::string_view default_type) {
    profile_.add(9, static_cast<std::uint64_t>(time_nanos));
    profile_.add(14, text(default_type));
    for (const std::string& string : strings_) profile_.add(6, std::string_view(string));
    return profile_.take();
  }

 private:
  /// Returns a name that pprof shows: it takes what stands in angle brackets for template arguments
  /// and drops it, and some languages have whole names in them.
  static std::string shown_name(const std::string& name) {
    if (!name.starts_with('<') || !name.ends_with('>')) return name;
    return '[' + name.substr(1, name.size() - 2) + ']';
  }

  std::uint64_t text(std::string_view string) {
    const auto [at, is_new] = indices_.emplace(string, strings_.size());
    if (is_new) strings_.emplace_back(string);
    return at->second;
  }

  std::uint64_t function(const SiteFrame& frame) {
    const auto [at, is_new] = functions_.emplace(
        std::tuple(frame.file, frame.function, frame.start_line), functions_.size() + 1);
    if (is_new) {
      detail::ProtoMessage message;
      message.add(1, at->second);
      message.add(2, text(shown_name(frame.function)));
      message.add(3, text(frame.function));
      message.add(4, text(frame.file));
      message.add(5, static_cast<std::uint64_t>(frame.start_line));
      profile_.add(5, message);
    }
    return at->second;
  }

  std::uint64_t location(const SiteFrame& frame) {
    const std::uint64_t function_id = function(frame);
    const auto [at, is_new] =
        locations_.emplace(std::pair(function_id, frame.line), locations_.size() + 1);
    if (is_new) {
      detail::ProtoMessage line;
      line.add(1, function_id);
      line.add(2, static_cast<std::uint64_t>(frame.line));
      detail::ProtoMessage message;
      message.add(1, at->second);
      message.add(4, line);
      profile_.add(4, message);
    }
    return at->second;
  }

  detail::ProtoMessage profile_;
  std::map<std::string, std::uint64_t, std::less<>> indices_;
  std::vector<std::string> strings_;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::uint64_t> functions_;
  std::map<std::pair<std::uint64_t, std::int64_t>, std::uint64_t> locations_;
};

}  // namespace devrt
