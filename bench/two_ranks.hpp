#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include <sinew/core/base/exchange.hpp>

#include "flag_lines.hpp"

namespace sinew::bench {

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// What two processes share beside what they measure.
struct Board {
  static constexpr std::size_t kMostBytes = 1 << 16;
  std::array<FlagPair, 2> lines;
  std::array<std::array<std::byte, kMostBytes>, 2> bytes;
  std::array<std::size_t, 2> lengths;
};

/// One of the two: they spin, and take each other's bytes from the board.
class Side {
 public:
  Side(Board& board, int rank) : board_(board), rank_(rank) {}

  int rank() const noexcept { return rank_; }
  /// Seconds per exchange of flag lines.
  double bare(std::uint64_t calls) { return exchange_flags(own(), others(), number_, calls); }
  void meet() { bare(1); }
  Exchange exchange() {
    return {rank_, 2, [this](const Bytes& mine) {
              const auto r = static_cast<std::size_t>(rank_);
              if (mine.size() > Board::kMostBytes) std::abort();
              std::memcpy(board_.bytes[r].data(), mine.data(), mine.size());
              board_.lengths[r] = mine.size();
              meet();
              std::vector<Bytes> all;
              for (std::size_t i = 0; i < 2; ++i) {
                const auto* first = board_.bytes[i].data();
                all.emplace_back(first, first + board_.lengths[i]);
              }
              meet();
              return all;
            }};
  }

 private:
  FlagPair& own() { return board_.lines[static_cast<std::size_t>(rank_)]; }
  const FlagPair& others() { return board_.lines[static_cast<std::size_t>(1 - rank_)]; }

  Board& board_;
  int rank_;
  std::uint64_t number_ = 0;
};

/// Runs `body(side)` in this process, as rank 0, and in a child.
template <class Body>
void in_two_processes(Body&& body) {
  void* memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* board = new (memory) Board{};
  const pid_t child = ::fork();
  Side side(*board, child == 0 ? 1 : 0);
  body(side);
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  ::munmap(memory, sizeof(Board));
}

}  // namespace sinew::bench
