// Each planted bug is found under every seed, and the same program without it under none.
// DEVRT_SIMULATOR_SEEDS says how many seeds: 50 if it is not set.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "planted_bugs.hpp"
#include "seeds.hpp"

Function Machine::kernel(const char* name) const {
  std::ifstream file(KERNELS, std::ios::binary);
  const std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
  Module module = nullptr;
  Function function = nullptr;
  CHECK(cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr) == 0);
  CHECK(cuModuleGetFunction(&function, module, name) == 0);
  return function;
}

namespace {

std::string reports_of(const Program& program, int seed, bool wrong) {
  Machine machine("devices=2 delay=150 memory=67108864 seed=" + std::to_string(seed));
  program.run(machine, wrong);
  machine.end();
  return devrt_simulator_reports(1);
}

bool is_found(const Program& program, const std::string& reports) {
  std::size_t begin = 0;
  while (begin < reports.size()) {
    const std::size_t end = reports.find('\n', begin);
    const std::string line = reports.substr(begin, end - begin);
    const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (line.starts_with(program.kind) && has(program.first) && has(program.second)) return true;
    begin = end + 1;
  }
  return false;
}

void check(const Program& program) {
  for (int seed = 0; seed < seeds(50); ++seed) {
    const std::string right = reports_of(program, seed, false);
    if (!right.empty()) {
      throw std::runtime_error(std::string(program.name) + " without its bug, seed " +
                               std::to_string(seed) + ", is reported: " + right);
    }
    const std::string wrong = reports_of(program, seed, true);
    if (!is_found(program, wrong)) {
      throw std::runtime_error(std::string(program.name) + ", seed " + std::to_string(seed) +
                               ", is not found; the reports are: " + wrong);
    }
  }
}

}  // namespace

TEST_CASE(planted_bugs_of_order_are_found_and_only_they) {
  for (const Program& program : programs_of_order()) check(program);
}

TEST_CASE(planted_bugs_of_memory_are_found_and_only_they) {
  for (const Program& program : programs_of_memory()) check(program);
}

TEST_CASE(planted_bugs_of_collectives_are_found_and_only_they) {
  for (const Program& program : programs_of_collectives()) check(program);
}

TEST_CASE(a_host_that_reads_device_memory_ends) {
  Machine machine("devices=2");
  const Pointer data = machine.memory(4096);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's own handler would end it in another way
    volatile const char read = *reinterpret_cast<volatile const char*>(data);
    _exit(read ? 1 : 0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  machine.end();
}

TEST_CASE(a_fault_at_an_address_of_a_device_is_explained) {
  Machine machine("devices=2 explain_faults=1");
  const Pointer data = machine.memory(4096);
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipes[1], STDERR_FILENO);
    volatile const char read = *reinterpret_cast<volatile const char*>(data);
    _exit(read ? 1 : 0);
  }
  close(pipes[1]);
  std::string text(200, '\0');
  const ssize_t length = read(pipes[0], text.data(), text.size());
  close(pipes[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  machine.end();
  CHECK(devrt_simulator_configure("") == nullptr);  // the handler goes
  CHECK(length > 0 && text.find("host access") != std::string::npos);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
