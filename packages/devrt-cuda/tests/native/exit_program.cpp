// Ends with what the driver returns when the process's handlers of exit have run.
#include <unistd.h>

#include "driver_api.hpp"

namespace {

// Made before the driver is first called, so it goes after the driver's own handler has run.
struct Last {
  ~Last() {
    std::size_t free = 0, total = 0;
    _exit(cuMemGetInfo_v2(&free, &total));
  }
};
Last last;

}  // namespace

int main() { return cuInit(0); }
