#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "harness.hpp"

// Runs every case, or those whose name contains the first argument; of these every n-th from the
// k-th on, where k and n are the second and the third.
int main(int argc, char** argv) {
  const char* const wanted = argc > 1 ? argv[1] : "";
  const int first = argc > 3 ? std::atoi(argv[2]) : 0;
  const int step = argc > 3 ? std::atoi(argv[3]) : 1;
  int failed = 0;
  int run = 0;
  int number = 0;
  for (const harness::Case& test : harness::cases()) {
    if (!std::strstr(test.name, wanted) || number++ % step != first) continue;
    ++run;
    try {
      test.body();
    } catch (const std::exception& error) {
      ++failed;
      std::cerr << "FAILED " << test.name << ": " << error.what() << "\n";
    }
  }
  std::cout << run - failed << " passed, " << failed << " failed\n";
  return failed || !run;
}
