// A test harness of one page: cases register themselves, and a failed check names its line.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "devrt/base/status.hpp"

namespace harness {

struct Case {
  const char* name;
  std::function<void()> body;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Registrar {
  Registrar(const char* name, std::function<void()> body) { cases().push_back({name, body}); }
};

inline void check(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  std::ostringstream text;
  text << file << ":" << line << ": " << what;
  throw std::runtime_error(text.str());
}

/// Returns the status that `body` throws; fails if it throws none.
template <class Body>
devrt::Status status_of(const Body& body) {
  try {
    body();
  } catch (const devrt::StatusError& error) {
    return error.status();
  }
  throw std::runtime_error("a StatusError was expected and none was thrown");
}

}  // namespace harness

#define TEST_CASE(name)                                           \
  static void name();                                             \
  static const harness::Registrar name##_registrar(#name, &name); \
  static void name()

#define CHECK(condition) harness::check((condition), #condition, __FILE__, __LINE__)
