#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinew/core/net/dialer.hpp>

namespace sinew::tcp {

/// Decides whether and when a failed attempt to connect to a peer is followed by another. It gives up only when nobody
/// listens at any address, or the listener is not the peer, or this process lacks for seconds what a connection takes.
/// Every other attempt is repeated, because a peer that computes answers late. Where no kernel answers it gives up
/// after so many rounds through all paths. An attempt whose path fails before the peer can have taken the connection
/// gives way to the next path.
class Redial {
 public:
  static constexpr auto kPause = std::chrono::milliseconds(200);
  static constexpr int kClosings = 10;  ///< without an answer to the hello: another program has the port now
  static constexpr int kClosingsPerPath = 3;
  static constexpr auto kWaitForTheirs = std::chrono::seconds(5);
  static constexpr auto kShortage = std::chrono::seconds(5);
  static constexpr int kForever = -1;

  Redial(std::vector<Path> paths, int rounds) : paths_(std::move(paths)), rounds_(rounds) {}

  Dialer::Next after(const Dialer::Failure& failure);

 private:
  Dialer::Next next_path(const Dialer::Failure& failure);
  Dialer::Next closed_early(const Dialer::Failure& failure);
  Dialer::Next wait_for_resources(const Dialer::Failure& failure);

  const std::vector<Path> paths_;
  int rounds_;                // left
  int closings_ = 0;          // by what may be another program, and not because this side was late
  int turned_away_ = 0;       // those, and by processes of the job
  std::string refusals_;      // of the paths tried in this round
  bool may_be_late_ = false;  // a path of this round has not answered in time
  Clock::time_point short_since_ = Clock::time_point::max();
};

}  // namespace sinew::tcp
