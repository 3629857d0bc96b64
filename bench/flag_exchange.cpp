// The floor under every small collective on a host: two processes, each with one flag line that it alone writes, tell
// each other "call number i" over and over. No library, no reduction, nothing but the two lines.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sinew/core/cpu.hpp>

namespace {

using Clock = std::chrono::steady_clock;

struct alignas(sinew::kFalseSharing) Line {
  std::atomic<std::uint64_t> stamp;
  std::uint64_t payload;
};

/// One rank's lines, used in turn: neither rank overwrites what the other has yet to read.
using Pair = std::array<Line, 2>;

/// `calls` exchanges; seconds per exchange.
double exchange(Pair& mine, const Pair& theirs, std::uint64_t& number, std::uint64_t calls) {
  const auto begin = Clock::now();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < calls; ++i) {
    ++number;
    Line& own = mine[number & 1];
    const Line& other = theirs[number & 1];
    own.payload = sum;
    own.stamp.store(number, std::memory_order_release);
    while (other.stamp.load(std::memory_order_acquire) < number) {
    }
    sum += other.payload;
  }
  return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the bare exchange of two flag lines between two processes of this host.");
  std::uint64_t calls = 20'000;
  int batches = 31;
  app.add_option("--calls", calls, "exchanges in a batch")->capture_default_str();
  app.add_option("--batches", batches, "batches; the median is printed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return EXIT_FAILURE;
  auto* lines = new (memory) Pair[2]{};
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  std::uint64_t number = 0;
  std::vector<double> seconds;
  for (int b = 0; b < batches; ++b) seconds.push_back(exchange(lines[rank], lines[1 - rank], number, calls));
  if (rank == 1) _exit(0);
  waitpid(child, nullptr, 0);
  std::ranges::sort(seconds);
  fmt::print("{:.1f} ns per exchange (median of {}), best {:.1f} ns\n", seconds[seconds.size() / 2] * 1e9, batches,
             seconds.front() * 1e9);
}
