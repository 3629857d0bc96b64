#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/store/elastic_members.hpp>

namespace sinew {

class StoreClient;
struct Joined;
struct Launch;
struct LaunchVariables;

/// A round of an elastic job, as one of its members sees it.
class SINEW_API Round {
 public:
  Round(FormedRound formed, std::shared_ptr<StoreClient> members, const Config& config)
      : formed_(std::move(formed)), members_(std::move(members)), config_(config) {}

  std::uint64_t number() const noexcept { return formed_.number; }
  /// The number of ranks that go on. They are the first ones of members().
  int ranks() const noexcept { return formed_.ranks; }
  const std::vector<RoundMember>& members() const noexcept { return formed_.members; }
  /// This process's index in members().
  int place() const noexcept { return formed_.place; }
  /// True if this process has a rank in this round. Otherwise it hands over its state, and waits for a later round.
  bool has_rank() const noexcept { return formed_.place < formed_.ranks; }
  /// True if members hold state and have no rank in this round. All members then make a World of members() first, in
  /// which they hand over their state.
  bool has_leaving_members() const noexcept { return static_cast<std::size_t>(formed_.ranks) < formed_.members.size(); }

  /// Makes the exchange by which World::of_ranks() makes the World of this round's ranks. Precondition: has_rank().
  /// Errors: Timeout if a rank does not come. PeerLost if one dies meanwhile: then all ask for the next round.
  Exchange exchange_of_ranks() const;
  /// The same for all members, also those that have no rank any more.
  Exchange exchange_of_members() const;

  /// As exchange_of_ranks(), with the store of these ranks.
  Joined join_ranks() const;

 private:
  Joined join_as(int size, const std::string& group) const;

  FormedRound formed_;
  std::shared_ptr<StoreClient> members_;
  Config config_;
};

/// Tells a process of an elastic job with which other processes it forms the next World. The launcher serves the
/// rendezvous, so it goes on when a rank ends.
/// Thread: any; calls of one object take turns.
class SINEW_API Rendezvous {
 public:
  /// The limits of the elastic job to which this process belongs (SINEW_ELASTIC=MIN:MAX, in ranks). nullopt: the job
  /// is not elastic.
  static std::optional<ElasticLimits> limits();
  /// The rendezvous of this process. All callers share one connection.
  /// Errors: InvalidArgument if the job is not elastic, or if a variable is missing. Timeout and PeerLost if the
  ///         launcher cannot be reached.
  static std::shared_ptr<Rendezvous> of_process(const Config& config);

  explicit Rendezvous(std::shared_ptr<StoreClient> client, const Config& config);

  /// Waits for the next round with this process. A process that has a rank calls it to change the members of the job,
  /// and all other ranks must do so, too. A process without a rank waits here until it gets one.
  /// `counts`: the numbers of ranks that the program can run with, ascending, and equal on all members. Empty: any.
  /// `holds_state`: the process has state to hand over, and is one of Round::members() in any case.
  /// Errors: Timeout at the deadline, with what the round waits for. PeerLost if the launcher has ended.
  Round next(std::span<const int> counts = {}, bool holds_state = false, Deadline deadline = Deadline::never());
  /// True if the job could go on with more ranks than it has. It costs one round trip to the launcher, so one rank asks
  /// and tells the others.
  bool is_change_due();
  /// The job's secret, for WorldOptions::secret.
  const Bytes& secret() const;

 private:
  std::shared_ptr<StoreClient> client_;
  Config config_;
};

/// As exchange_from_environment for a process of an elastic job.
Launch launch_from_rendezvous(const LaunchVariables& v, const Config& config);

}  // namespace sinew
