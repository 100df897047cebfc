// The names of architectures from sysfs, as the kernel lays it out.
#include <unistd.h>

#include <fstream>

#include "harness.hpp"
#include "kfd.hpp"

namespace devrt::gpu {

namespace {

namespace fs = std::filesystem;

/// A folder of KFD's nodes.
class Nodes {
 public:
  Nodes() { fs::remove_all(folder); }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  ~Nodes() { fs::remove_all(folder); }

  void add(int simds, unsigned version, unsigned location, unsigned domain) {
    const fs::path node = folder / std::to_string(count_++);
    fs::create_directories(node);
    std::ofstream(node / "properties")
        << "cpu_cores_count 0\nsimd_count " << simds << "\ngfx_target_version " << version
        << "\nlocation_id " << location << "\ndomain " << domain
        << "\nhive_id 18446744073709551615\nunique_id 11533820283574352896\n";
  }

  const fs::path folder = fs::temp_directory_path() / ("kfd_nodes_" + std::to_string(getpid()));

 private:
  int count_ = 0;
};

}  // namespace

TEST_CASE(rocm_architectures_are_named_by_the_kernel_s_driver) {
  Nodes nodes;
  nodes.add(0, 0, 0, 0);  // the processor
  nodes.add(440, 90010, 0x0300, 0);
  nodes.add(880, 90402, 0x0308, 0);
  nodes.add(192, 110001, 0x0300, 1);
  nodes.add(64, 100302, 0xC300, 0);
  CHECK(kfd_architecture(nodes.folder, "0000:03:00.0") == "gfx90a");
  CHECK(kfd_architecture(nodes.folder, "0000:03:01.0") == "gfx942");
  CHECK(kfd_architecture(nodes.folder, "0001:03:00.0") == "gfx1101");
  CHECK(kfd_architecture(nodes.folder, "0000:c3:00.0") == "gfx1032");
  for (const char* const unknown : {"0000:00:00.0", "0000:04:00.0", "", "x"}) {
    CHECK(kfd_architecture(nodes.folder, unknown).empty());
  }
  CHECK(kfd_architecture(nodes.folder / "elsewhere", "0000:03:00.0").empty());
}

}  // namespace devrt::gpu
