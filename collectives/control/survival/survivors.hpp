#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/survival/ballot.hpp>
#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// Lets the ranks of a World that live make something together: its next generation. The lowest of them proposes who
/// takes part and serves a store where they meet; each tries, and votes. Whoever lives must have voted for it, else
/// the next proposal leaves out those who died. Of a rank only its latest vote is known: one on a later proposal is
/// against those before. Proposals and votes are notices: on a host they outlive who made them.
/// Of ranks on other hosts a vote may be lost with its host; then the deadline ends the wait.
/// Thread: any; nobody need drive the engine.
class SINEW_API Survivors {
 public:
  /// `secret`: of the job, as in ControlSetup.
  Survivors(ControlService& service, Bytes secret, const Config& config);
  ~Survivors();
  Survivors(const Survivors&) = delete;
  Survivors& operator=(const Survivors&) = delete;

  /// Calls `make` with an exchange among the survivors, in the order of their ranks, until it went well everywhere.
  /// Errors: Timeout naming who did not come; what `make` threw, here or elsewhere, if nobody has died.
  void agree(const std::function<void(const Exchange&)>& make);

 private:
  std::string name_of(int world_rank) const;
  std::vector<int> living() const;
  Ballot next_ballot();
  Ballot propose(const std::vector<int>& members);
  std::optional<Ballot> proposal_of(int leader) const;
  Exchange exchange_for(const Ballot& ballot);
  bool stands(const Ballot& ballot) const;
  void lose(int world_rank);
  /// true: all that live are for it.
  bool passed(const Ballot& ballot);
  bool somebody_died(const Ballot& ballot) const;

  ControlService& service_;
  Bytes secret_;
  const Config& config_;
  Deadline deadline_;
  std::uint64_t last_ = 0;  ///< ballot that was tried
  std::shared_ptr<HostedStore> hosted_;
  std::vector<int> hosted_for_;
};

}  // namespace sinew
