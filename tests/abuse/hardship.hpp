#pragma once

#include <string>

namespace sinew::abuse {

/// What a job has to live with while it works.
enum class Hardship {
  Stop,         ///< a rank is stopped for a second and a half, and goes on
  Signals,      ///< a thousand a second, whose handlers interrupt system calls
  Descriptors,  ///< one rank can open no more files or sockets
  Memory,       ///< one rank can have 16 MiB more
  Fork,         ///< a rank forks children again and again, which end
  Throw,        ///< an exception leaves a rank with calls under way
  Clock,        ///< the time of day jumps by hours, back and forth
};

inline constexpr const char* kHardshipNames[] = {"stop", "signals", "descriptors", "memory", "fork", "throw", "clock"};

/// The rank that it hits, where it does not hit all.
inline constexpr int kHit = 1;
/// Rounds of checked calls that each rank makes.
inline constexpr int kRounds = 300;

/// One rank of a job under a hardship: tells the board how many rounds were right, and what error ended them.
int run_enduring(const std::string& board, Hardship hardship);

}  // namespace sinew::abuse
