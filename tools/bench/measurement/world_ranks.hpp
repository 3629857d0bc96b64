#pragma once

#include <span>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/exchange.hpp>

#include "ranks.hpp"

namespace sinew::tools {

/// The ranks of a World agree over a communicator of their own.
class WorldRanks : public Ranks {
 public:
  explicit WorldRanks(Communicator& all) : communicator_(all.split(0)) {}
  int rank() const noexcept override { return communicator_.rank(); }
  int size() const noexcept override { return communicator_.size(); }
  void meet() override { communicator_.barrier().get(); }
  std::vector<double> gather(std::span<const double> mine) override;
  /// Lifetime: lives no longer than this object.
  Exchange exchange();

 private:
  std::vector<Bytes> gather_bytes(const Bytes& mine);

  Communicator communicator_;
};

/// A World whose ranks meet over `exchange`. The exchange carries the secret of that World, too.
World world_over(const Exchange& exchange, WorldOptions options);

}  // namespace sinew::tools
