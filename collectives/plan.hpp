#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// One way that was considered for a call: taken, beaten, or rejected with its reason.
struct Candidate {
  std::string algorithm;  ///< "ring", "recursive_doubling", or the name of an offload such as "shm"
  std::string transport;  ///< "shm", "tcp", or "shm+tcp" where pairs differ
  std::string method;     ///< what it would do, in words; may be empty
  Seconds predicted = 0;
  std::string rejected;  ///< why it cannot run; empty: it can
};

struct ReadyPlan;
class Recipe;

/// What would run for a call and why, and, from Communicator::plan, what Communicator::run takes to run it again and
/// again. Asking costs no communication. May outlive its communicator, but cannot be run any more then.
class SINEW_API Plan {
 public:
  Plan() = default;
  Plan(CollectiveDesc desc, int ranks, std::vector<Candidate> candidates, std::string reason, std::string facts);

  /// Errors: InvalidArgument for a Plan that no Communicator::plan has made, as explain() and to_json().
  const Candidate& chosen() const;
  /// The chosen one first, then the others by predicted time, then the rejected.
  const std::vector<Candidate>& candidates() const noexcept { return candidates_; }
  /// The winner, every loser with its predicted time, every reject with its reason, and where the numbers come from.
  std::string explain() const;
  std::string to_json() const;
  /// What programs are built by. nullptr: an offload, the host's memory, or a message.
  const Recipe* recipe() const noexcept;
  /// The call that it is for. Errors: as explain(), and for messages.
  const CollectiveDesc& call() const;
  /// How what the recipe builds is cut. Errors: as call().
  const Segmentation& segmentation() const;
  /// Of the group that it is for.
  int ranks() const noexcept { return ranks_; }

 private:
  friend class Communicator;

  std::shared_ptr<ReadyPlan> ready_;
  std::string call_;
  std::uint64_t bytes_ = 0;
  int ranks_ = 0;
  std::vector<Candidate> candidates_;
  std::string reason_;
  std::string facts_;
};

}  // namespace sinew
