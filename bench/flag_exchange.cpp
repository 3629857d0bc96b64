// The bare exchange of flag_lines.hpp between two processes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "flag_lines.hpp"

int main(int argc, char** argv) {
  CLI::App app("Measures the bare exchange of two flag lines between two processes of this host.");
  std::uint64_t calls = 20'000;
  int batches = 31;
  app.add_option("--calls", calls, "exchanges in a batch")->capture_default_str();
  app.add_option("--batches", batches, "batches; the median is printed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return EXIT_FAILURE;
  auto* lines = new (memory) sinew::bench::FlagPair[2]{};
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  std::uint64_t number = 0;
  std::vector<double> seconds;
  for (int b = 0; b < batches; ++b)
    seconds.push_back(sinew::bench::exchange_flags(lines[rank], lines[1 - rank], number, calls));
  if (rank == 1) _exit(0);
  waitpid(child, nullptr, 0);
  std::ranges::sort(seconds);
  fmt::print("{:.1f} ns per exchange (median of {}), best {:.1f} ns\n", seconds[seconds.size() / 2] * 1e9, batches,
             seconds.front() * 1e9);
}
