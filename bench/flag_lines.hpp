#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <sinew/core/host/cpu.hpp>

namespace sinew::bench {

/// One flag line: its owner alone writes it.
struct alignas(kFalseSharing) FlagLine {
  std::atomic<std::uint64_t> stamp;
  std::uint64_t payload;
};

/// One rank's lines, used in turn: neither rank overwrites what the other has yet to read.
using FlagPair = std::array<FlagLine, 2>;

/// The bare exchange, the floor under every small collective on a host: two ranks tell each other "call number i",
/// `calls` times. No library, no reduction, nothing but the two lines. Returns seconds per exchange.
inline double exchange_flags(FlagPair& mine, const FlagPair& theirs, std::uint64_t& number, std::uint64_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < calls; ++i) {
    ++number;
    FlagLine& own = mine[number & 1];
    const FlagLine& other = theirs[number & 1];
    own.payload = sum;
    own.stamp.store(number, std::memory_order_release);
    while (other.stamp.load(std::memory_order_acquire) < number) {
    }
    sum += other.payload;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(calls);
}

}  // namespace sinew::bench
