// The bare exchange of flag_lines.hpp between two processes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "command_line.hpp"
#include "flag_lines.hpp"

int main(int argc, char** argv) {
  sinew::bench::CommandLine command("Measures the bare exchange of two flag lines between two processes of this host.");
  std::uint64_t calls = 20'000;
  int batches = 31;
  command.option("--calls", calls, "exchanges in a batch", sinew::bench::kPositive);
  command.option("--batches", batches, "batches; the median is printed", sinew::bench::kPositive);
  command.parse(argc, argv);

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
