#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sinew/core/net/dialer.hpp>

namespace sinew::tcp {

/// Decides whether and when a failed attempt to connect to a peer is followed by another. There are no more attempts if
/// - nobody listens at any address,
/// - the listener is not the peer, or the peer has closed its endpoint,
/// - this process lacks a resource for kShortage, or
/// - paths have timed out in `rounds` rounds through all paths.
/// Every other attempt is repeated, because a peer that computes answers late. If a path fails before the peer can have
/// taken the connection, the next attempt uses the next path.
class Redial {
 public:
  static constexpr auto kPause = std::chrono::milliseconds(200);
  static constexpr int kClosings = 10;  ///< closings before the hello is answered: another program has the port
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
  int rounds_;                // rounds that are left; kForever: no limit
  int closings_ = 0;          // attempts that may have reached another program
  int turned_away_ = 0;       // all attempts in which the listener closed early
  std::string refusals_;      // why the paths tried in this round have failed
  bool may_be_late_ = false;  // a path of this round has timed out
  Clock::time_point short_since_ = Clock::time_point::max();
};

}  // namespace sinew::tcp
