// What the fake plugin does as one process of a job: the processes find each other's devices
// through the job's keys, as those of XLA's plugin do, and exchange what their programs add up.
#pragma once

#include <algorithm>
#include <sstream>

#include "objects.hpp"

inline PJRT_CallbackError make_callback_error = [](PJRT_Error_Code code, const char* message,
                                                   size_t size) {
  return fail(code, std::string(message, size));
};

/// The keys of a job. What fails ends as an error of the plugin's.
class Keys {
 public:
  explicit Keys(const PJRT_Client_Create_Args& args)
      : get_(args.kv_get_callback),
        look_(args.kv_try_get_callback),
        set_(args.kv_put_callback),
        get_arg_(args.kv_get_user_arg),
        look_arg_(args.kv_try_get_user_arg),
        set_arg_(args.kv_put_user_arg) {}

  bool are_given() const { return get_ && look_ && set_; }

  void set(const std::string& key, const std::string& value) const {
    PJRT_KeyValuePutCallback_Args args{};
    args.key = key.data();
    args.key_size = key.size();
    args.value = value.data();
    args.value_size = value.size();
    args.callback_error = &make_callback_error;
    args.user_arg = set_arg_;
    raise(set_(&args));
  }
  std::string get(const std::string& key) const {
    const char* timeout = std::getenv("FAKE_GPU_TIMEOUT");
    PJRT_KeyValueGetCallback_Args args{};
    args.timeout_in_ms = timeout ? std::atoi(timeout) : 60'000;
    return value_of(get_, args, key, get_arg_);
  }
  std::string look(const std::string& key) const {
    PJRT_KeyValueTryGetCallback_Args args{};
    return value_of(look_, args, key, look_arg_);
  }

 private:
  static void raise(PJRT_Error* error) {
    if (error) throw std::unique_ptr<PJRT_Error>(error);
  }
  template <class Callback, class Args>
  static std::string value_of(Callback callback, Args& args, const std::string& key,
                              void* user_arg) {
    args.key = key.data();
    args.key_size = key.size();
    args.callback_error = &make_callback_error;
    args.user_arg = user_arg;
    raise(callback(&args));
    std::string value(args.value, args.value_size);
    args.value_deleter_callback(args.value);
    return value;
  }

  PJRT_KeyValueGetCallback get_;
  PJRT_KeyValueTryGetCallback look_;
  PJRT_KeyValuePutCallback set_;
  void *get_arg_, *look_arg_, *set_arg_;
};

/// One process of a job, or one that is in none.
struct Job {
  int node = 0;
  int nodes = 1;
  std::unique_ptr<Keys> keys;

  void read(const PJRT_Client_Create_Args& args) {
    for (std::size_t i = 0; i < args.num_options; ++i) {
      const PJRT_NamedValue& option = args.create_options[i];
      const std::string name(option.name, option.name_size);
      if (name == "node_id") node = static_cast<int>(option.int64_value);
      if (name == "num_nodes") nodes = static_cast<int>(option.int64_value);
    }
    keys = std::make_unique<Keys>(args);
  }

  /// Returns how many devices each process has.
  std::vector<int> exchange(int mine) const {
    if (nodes == 1) return {mine};
    if (!keys->are_given())
      throw std::unique_ptr<PJRT_Error>(
          fail(PJRT_Error_Code_FAILED_PRECONDITION, "a job without keys"));
    publish(mine);
    if (node == 0) collect();
    std::istringstream all(keys->get("fake/all"));
    std::vector<int> counts;
    for (int count = 0; all >> count;) counts.push_back(count);
    check_absent();
    if (has_fault("more")) ++counts[node == 0 ? 1 : 0];
    return counts;
  }

  /// Returns the sums of the devices' values, of all processes; `values` are this one's.
  std::vector<float> add(const std::string& run, const std::vector<int>& ids, int count,
                         const std::vector<std::vector<float>>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto* bytes = reinterpret_cast<const char*>(values[i].data());
      keys->set("fake/" + run + "/" + std::to_string(ids[i]),
                std::string(bytes, values[i].size() * sizeof(float)));
    }
    std::vector<float> sums(values.front().size());
    for (int device = 0; device < count; ++device) {
      const std::string bytes = keys->get("fake/" + run + "/" + std::to_string(device));
      std::vector<float> there(sums.size());
      std::memcpy(there.data(), bytes.data(), std::min(bytes.size(), sums.size() * sizeof(float)));
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += there[i];
    }
    return sums;
  }

 private:
  /// Publishes from a thread of its own, with a byte that is no text.
  void publish(int mine) const {
    if (has_fault("silent")) return;
    std::unique_ptr<PJRT_Error> failed;
    std::thread([&] {
      try {
        keys->set("fake/local/" + std::to_string(node),
                  std::string("\xff\0", 2) + std::to_string(mine));
      } catch (std::unique_ptr<PJRT_Error>& error) {
        failed = std::move(error);
      }
    }).join();
    if (failed) throw std::move(failed);
  }
  void collect() const {
    std::string all;
    for (int other = 0; other < nodes; ++other) {
      all += keys->get("fake/local/" + std::to_string(other)).substr(2) + " ";
    }
    keys->set("fake/all", all);
  }
  void check_absent() const {
    try {
      (void)keys->look("fake/nobody");
    } catch (std::unique_ptr<PJRT_Error>& error) {
      if (error->code == PJRT_Error_Code_NOT_FOUND) return;
      throw std::move(error);
    }
    throw std::unique_ptr<PJRT_Error>(fail(PJRT_Error_Code_INTERNAL, "a key that nobody has set"));
  }
};
