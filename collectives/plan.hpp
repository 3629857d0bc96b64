#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost_model.hpp>

namespace sinew {

/// A candidate for a call: an algorithm on a transport, or an offload. Rejected candidates have a reason.
struct Candidate {
  std::string algorithm;  ///< "ring", "recursive_doubling", or the name of an offload such as "shm"
  std::string transport;  ///< "shm", "tcp", or "shm+tcp" if pairs of ranks use different transports
  std::string method;     ///< how it runs the call, in words; may be empty
  Seconds predicted = 0;
  std::string rejected;                     ///< why it cannot run the call; empty: it can
  CostSource source = CostSource::Default;  ///< the source of `predicted`
};

struct ReadyPlan;
class Recipe;

/// The selector's choice for a call, with all candidates. Communicator::plan makes it, and Communicator::run runs it
/// any number of times. Its functions exchange no messages.
/// Lifetime: it may outlive its communicator, but then it cannot be run any more.
class SINEW_API Plan {
 public:
  Plan() = default;
  Plan(CollectiveDesc desc, int ranks, std::vector<Candidate> candidates, std::string reason, std::string facts);

  /// The candidate that runs the call.
  /// Errors: chosen(), explain() and to_json() throw InvalidArgument for a Plan that Communicator::plan has not made.
  const Candidate& chosen() const;
  /// The chosen candidate, then the others by predicted time, then the rejected ones.
  const std::vector<Candidate>& candidates() const noexcept { return candidates_; }
  /// All candidates as text: the chosen one, the others with their predicted times, and the rejected ones with their
  /// reasons. Tells the source of the numbers.
  std::string explain() const;
  std::string to_json() const;
  /// The recipe that builds the programs of the call. Null if an offload runs it, or if it is a copy or a message.
  const Recipe* recipe() const noexcept;
  /// The call that is planned.
  /// Errors: those of explain(). InvalidArgument for messages.
  const CollectiveDesc& call() const;
  /// The segmentation of the programs.
  /// Errors: those of call().
  const Segmentation& segmentation() const;
  /// The number of ranks of the group.
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
