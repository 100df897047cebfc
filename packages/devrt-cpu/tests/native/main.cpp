#include <cstring>
#include <exception>
#include <iostream>

#include "harness.hpp"

// Runs every case, or those whose name contains the argument.
int main(int argc, char** argv) {
  int failed = 0;
  int run = 0;
  for (const harness::Case& test : harness::cases()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
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
