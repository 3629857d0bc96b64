#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <sinew/collectives/simulator/time_queue.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// Flows of bytes that share links max-min fairly, on a clock that the caller moves: every flow gets as much as every
/// other one on its most crowded link. Flows on the same path are alike, so that rates are kept by path.
/// Cost:   a change of flows costs a look at what lies in reach of it: paths that share a link with the changed ones,
/// and
///         so on. Only those whose rates change get a new end.
/// Source: progressive filling, Bertsekas and Gallager, Data Networks, 1992, section 6.5.2.
class SINEW_API Traffic {
 public:
  static constexpr Seconds kNever = std::numeric_limits<Seconds>::infinity();

  /// Of a path: a link, and how many times over each of its flows fills it (flows that stand for others).
  struct Use {
    int link = 0;
    double times = 1;
    friend bool operator==(const Use&, const Use&) = default;
    friend auto operator<=>(const Use&, const Use&) = default;
  };

  /// Links are numbered from 0 as they come.
  explicit Traffic(const std::vector<double>& bytes_per_s);
  /// Paths, too. One without links has no place here: what never is limited takes no time.
  int add_path(const std::vector<Use>& uses);

  /// A flow that `token` names to take_ended().
  void start(int path, double bytes, std::uint64_t token, Seconds now);
  /// Shares anew after flows have started or ended.
  void settle(Seconds now);
  /// When the next flow ends, as it stands; kNever: none is under way. settle() first.
  Seconds next_end();
  /// Ends the flows whose time has come, into `tokens`.
  void take_ended(Seconds now, std::vector<std::uint64_t>& tokens);

  /// Of one flow of a path, bytes per second. settle() first.
  double rate(int path) const { return paths_[static_cast<std::size_t>(path)].rate; }

 private:
  using Flow = std::pair<double, std::uint64_t>;  // ends when the path has carried so much; token
  struct Member {
    int path = 0;
    std::uint32_t use = 0;
  };
  struct Path {
    std::uint32_t first_use = 0;
    std::uint32_t uses = 0;
    std::priority_queue<Flow, std::vector<Flow>, std::greater<>> flows;
    double carried = 0;  // by a flow that has been there since the path was idle
    double rate = 0;
    double given = 0;   // the rate from now on
    Seconds since = 0;  // of `carried`
    std::uint32_t version = 0;
    std::uint32_t shared = 0;  // flows, when rates were last shared out
    std::uint32_t seen = 0;
    bool active = false;  // is among its links' members
    bool changed = false;
    bool resized = false;  // has other flows than its end was expected with
    bool open = false;     // has no rate yet
  };
  struct Link {
    double bytes_per_s = 0;
    std::vector<Member> members;
    double left = 0;   // not given to a path yet
    double asked = 0;  // of each further byte per second that its open paths get
    std::uint32_t open = 0;
    std::uint32_t seen = 0;
  };
  struct End {
    int path = 0;
    std::uint32_t version = 0;
  };

  Path& path(int p) { return paths_[static_cast<std::size_t>(p)]; }
  Link& link(int l) { return links_[static_cast<std::size_t>(l)]; }
  void mark_changed(int p);
  void join_links(int p);
  void leave_links(int p);
  std::span<const Use> uses(const Path& p) const { return {uses_.data() + p.first_use, p.uses}; }
  double asks(const Path& p, std::uint32_t use) const { return p.shared * uses_[p.first_use + use].times; }
  void touch(int l);
  void reach(int first);
  void share();
  void give_rates(Seconds now);
  void give(Path& to, double rate);
  void advance(Path& p, Seconds now) const;
  void expect_end(int p, Seconds now);

  std::vector<Link> links_;
  std::vector<Path> paths_;
  std::vector<Use> uses_;             // of all paths
  std::vector<std::uint32_t> seats_;  // of each use: its place among the link's members
  TimeQueue<End> ends_;
  std::vector<int> changed_;
  // Of one settle(): links of changed paths, and what is in reach of one of them.
  std::vector<int> seeds_;
  std::vector<int> near_paths_, near_links_;
  std::vector<std::pair<double, int>> shares_;  // heap, least first: a link's share, at least
  std::uint32_t round_ = 0;
};

}  // namespace sinew
