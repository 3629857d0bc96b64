#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// The limits of an elastic job.
struct ElasticLimits {
  int least = 1;  ///< the fewest ranks with which the job runs
  int most = 1;   ///< the most ranks. Members above this number wait idle
  /// The first round waits at most this long for processes that were started and have not come.
  Duration first_wait = std::chrono::seconds(30);
  /// If all ranks have ended, waiting processes form a new round only after this time. The ranks may have ended because
  /// the job is done. The launcher learns within this time how they ended, and then forms no more rounds.
  Duration anew_wait = std::chrono::seconds(1);
};

/// A process that asks for its next round.
struct SINEW_API MemberRequest {
  std::string host;          ///< for grouping: members of one host get neighbouring ranks
  int pid = 0;               ///< for messages
  std::vector<int> counts;   ///< the numbers of ranks that the program can run with, ascending; empty: any number
  bool holds_state = false;  ///< true: the process has state that the other members may need, also if it gets no rank

  Bytes encode() const;
  static MemberRequest decode(std::span<const std::byte> fields);
};

/// A member of a round, as the other members see it.
struct RoundMember {
  std::string host;
  int pid = 0;
  int before = -1;  ///< its rank in the round before; -1: it had none
};

/// The ranks of an elastic job until the next change. The first `ranks` members have these ranks. Members behind them
/// hold state and have no rank. They are listed so that they can hand over their state.
struct SINEW_API FormedRound {
  std::uint64_t number = 0;  ///< counted from 1
  int ranks = 0;
  int place = -1;  ///< of the member that asked, in `members`
  std::vector<RoundMember> members;

  Bytes encode() const;
  static FormedRound decode(std::span<const std::byte> fields);
};

/// The groups of a round at the store (StoreIdentity::group), in which its ranks and all its members find each other.
SINEW_API std::string group_of_ranks(std::uint64_t round);
SINEW_API std::string group_of_members(std::uint64_t round);

/// Decides who takes part in an elastic job. Members come and wait, and rounds are formed of those who wait. A round is
/// formed when all members that had a rank in the last round wait again or have gone. It has the largest number of
/// ranks that the limits, the members' `counts` and the number of those who wait permit. A member keeps its rank if it
/// can.
/// Free ranks go to members that lose theirs, then to new ones.
/// It does no I/O, and is the server's part of StoreOp::NextRound.
class SINEW_API ElasticMembers {
 public:
  using Id = std::uint64_t;

  explicit ElasticMembers(ElasticLimits limits) : limits_(limits) {}

  /// Sets the number of processes that were started. The first round waits until all of them have come, but not longer
  /// than ElasticLimits::first_wait.
  void expect(int processes) noexcept { expected_ = processes; }
  /// A member waits for its next round.
  /// Errors: InvalidArgument for `counts` that do not ascend, that are not positive, or that differ from those of the
  ///         other members.
  void wait(Id id, MemberRequest request);
  /// A member has gone. Ids that are not known are ignored.
  void leave(Id id);
  /// A member's place in the latest round.
  struct Seat {
    int place = -1;
    int ranks = 0;
    int members = 0;
    std::uint64_t round = 0;
  };
  /// nullopt: the member is in no round, or asks for the next one.
  std::optional<Seat> seat_of(Id id) const;
  /// A round and its members' ids. A member's index in `ids` is its FormedRound::place, which is not set yet.
  struct Formed {
    FormedRound round;
    std::vector<Id> ids;
  };
  /// Forms the next round if it can be formed.
  std::optional<Formed> form(Clock::time_point now);
  /// The time at which form() may succeed although nothing else has happened.
  Deadline next_look() const noexcept;
  /// True if a new round would have more ranks than the present one.
  bool is_change_due() const;
  /// Tells what the next round waits for, such as "2 members wait, the job needs 4; rank 3 (pid 12 on b) has a rank in
  /// round 5 and has not come".
  std::string waits_for() const;
  int waiting() const noexcept;

 private:
  struct Member {
    MemberRequest request;
    bool waits = false;
    int rank = -1;   // in the last round
    int place = -1;  // among its members
    std::uint64_t arrival = 0;
  };

  std::optional<int> ranks_for(int available) const;
  /// The time before which no round is formed of those that wait now.
  Clock::time_point earliest() const noexcept;
  std::vector<Id> order(int ranks) const;
  void sort_by_host(std::vector<Id>& fresh) const;
  int unit() const noexcept;

  ElasticLimits limits_;
  std::map<Id, Member> members_;
  std::optional<std::vector<int>> counts_;  // of all members
  int expected_ = 0;
  int ranks_ = 0;  // of the last round
  int in_round_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t arrivals_ = 0;
  Clock::time_point first_arrival_ = Clock::time_point::max();
  Clock::time_point last_departure_{};  // of a rank
};

}  // namespace sinew
