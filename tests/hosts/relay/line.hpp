#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

namespace sinew::test {

/// The delay, the losses and the rate of a line between two hosts. The defaults do nothing.
struct LineOptions {
  std::chrono::nanoseconds delay{0};                        ///< one way
  double loss = 0;                                          ///< share of the packets that are dropped, 0 to 1
  double bytes_per_s = 0;                                   ///< of the packets' bytes; 0: no limit
  std::chrono::nanoseconds queue{std::chrono::seconds(1)};  ///< a packet that would wait longer for its turn is dropped
  std::uint64_t seed = 1;                                   ///< of the choice of the lost packets
};

/// One direction of a line. It says when each packet arrives. It has no clock of its own: callers pass the time.
class Line {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Line(const LineOptions& options) : options_(options), random_(options.seed) {}

  /// When a packet that enters now leaves at the other end. Nothing: it is dropped. Arrivals are in the packets' order.
  std::optional<Time> arrival(Time now, std::size_t bytes);

  std::uint64_t passed() const noexcept { return passed_; }
  std::uint64_t lost() const noexcept { return lost_; }              ///< by LineOptions::loss
  std::uint64_t overflowed() const noexcept { return overflowed_; }  ///< by LineOptions::queue

 private:
  LineOptions options_;
  std::mt19937_64 random_;
  Time free_at_{};
  std::uint64_t passed_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t overflowed_ = 0;
};

}  // namespace sinew::test
