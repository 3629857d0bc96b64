#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include <sinew/core/error.hpp>

namespace sinew::abuse {

inline constexpr int kMostRanks = 8;

/// What one rank tells whoever kills.
struct RankLine {
  std::atomic<std::int32_t> pid;
  std::atomic<std::int32_t> in_moment;    ///< 1: it is where it can be killed
  std::atomic<std::int64_t> returned_ns;  ///< of the monotonic clock; when it knew of the death
  std::atomic<std::int32_t> lost;         ///< whom its error named, of the World's ranks; -1: nobody
  std::atomic<std::int32_t> code;         ///< of its error; 0: it had none
  std::atomic<std::int32_t> shrunk;       ///< ranks of the World after shrink
  std::atomic<std::int32_t> right;        ///< of 100 collectives behind it
  std::array<char, 300> said;             ///< its error
};

/// Shared by all ranks and whoever kills: plain words in a file that they map. Zeros at first.
struct Board {
  std::atomic<std::int64_t> killed_ns;
  std::array<RankLine, kMostRanks> ranks;
};

/// Maps the file, of this process's board; made where `create`. Lives as long as the process.
Board& map_board(const std::string& file, bool create);

/// An error that a rank has been told, and when.
void tell(RankLine& line, const Error& e);

/// Of the monotonic clock, which is one for all processes of a host.
std::int64_t now_ns();

}  // namespace sinew::abuse
