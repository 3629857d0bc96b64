#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/tools/run/output/stream.hpp>

#include "process.hpp"

namespace sinew::run {

/// What happens to ranks, wherever they are.
struct RankEvents {
  std::function<void(Source source, std::string_view bytes)> output;
  std::function<void(int rank, const Ending& ending)> ended;
  /// The job goes on, with less than was asked for.
  std::function<void(const std::string& why)> warned;
  /// These ranks of a host cannot be started or reached any more. The end of each follows.
  std::function<void(const std::string& host, const std::string& why, const std::vector<int>& ranks)> broken;
};

/// The ranks of one host, as their launcher sees them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  /// Those that still run.
  virtual int running() const noexcept = 0;
  /// To all of them, and to what they started.
  virtual void signal(int number) = 0;
  /// While it is on, what they write to the stream stays with them, and they wait once their pipes are full.
  virtual void hold_all(Stream stream, bool on) = 0;
  /// The same for one stream of one rank. Ranks of other hosts are ignored.
  virtual void hold_one(Source source, bool on) = 0;
  /// SIGCHLD came: looks who has ended.
  virtual void reap() = 0;
};

}  // namespace sinew::run
