#pragma once

#include <cstddef>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// The most relays that have the same parent.
inline constexpr int kRelayFanOut = 16;

/// Where the relays of a job's hosts belong: a tree under the server of the store, which is number 0. The server asks
/// it for each relay that comes. A relay's parent came before the relay, so parents can be reached at once. Each parent
/// gets `fan_out` relays before a later one gets any, so the depth is logarithmic.
/// It does no I/O.
class SINEW_API RelayTree {
 public:
  explicit RelayTree(int fan_out = kRelayFanOut);

  struct Place {
    int number = 0;
    int parent = 0;
  };
  /// The place of a relay that comes for the first time.
  Place add();
  /// The place of a relay that has a number already. If its parent is `unreachable`, the relay gets another parent, and
  /// that one gets no more relays. Else the relay keeps its place: it asks again because an answer was lost.
  /// Precondition: is_relay(number).
  Place add_again(int number, int unreachable);
  bool is_relay(int number) const noexcept { return number > 0 && static_cast<std::size_t>(number) < nodes_.size(); }

  int fan_out() const noexcept { return fan_out_; }
  /// The number of connections between this relay and the server.
  int depth_of(int number) const noexcept;
  int relays() const noexcept { return static_cast<int>(nodes_.size()) - 1; }

 private:
  struct Node {
    int parent = -1;
    int children = 0;
    bool is_reachable = true;
  };

  int place_below(int number);

  const int fan_out_;
  std::vector<Node> nodes_;
  std::size_t first_with_room_ = 0;
};

/// The time for which a relay waits before it first connects to the server of the store. All relays know the server's
/// address only, and all processes of a job may start at the same moment. The waits spread the relays by their ranks.
/// So at most one relay comes in each kRelayPace, whatever the number of ranks.
inline constexpr Duration kRelayPace = std::chrono::microseconds(50);
constexpr Duration relay_wait(int rank) noexcept { return kRelayPace * (rank > 0 ? rank : 0); }

}  // namespace sinew
