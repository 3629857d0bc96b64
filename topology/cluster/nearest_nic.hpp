#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/machine.hpp>
#include <sinew/topology/model/distance.hpp>

namespace sinew {

/// The NICs that messages between hosts leave by, as indices in Machine::nics: of those that carry data the ones of the
/// highest rate, and of them, if some have RDMA that this process may use, those. What carries data is running, or an
/// active port of such RDMA.
/// `interfaces` (SINEW_INTERFACE): of the interfaces and RDMA devices with these names only. Empty: no loopback, and
/// nothing virtual (bridges, veth) beside a NIC with a place on PCI; where none has one, as in containers, a single
/// one: nobody knows what the others are for.
SINEW_API std::vector<int> nics_for_ranks(const Machine& machine, std::string_view interfaces = {});

/// Gives the ranks of one machine their NICs, one rank after the other. Lifetime: the machine outlives it.
class SINEW_API NicAssigner {
 public:
  struct Assignment {
    int nic = -1;     ///< index in Machine::nics; -1: there is none
    std::string why;  ///< "PIX from gpu:0"
  };

  explicit NicAssigner(const Machine& machine) : machine_(machine) {}
  /// Of `nics` (indices in Machine::nics) the nearest to any of `parts` ("gpu:0", "numa:1"; none: to all alike), of
  /// several as near the one that was given to fewest, then the first.
  Assignment assign(std::span<const std::string> parts, std::span<const int> nics);

 private:
  Between nearest(std::span<const std::string> parts, int nic);

  const Machine& machine_;
  std::map<int, int> users_;                                // of each NIC
  std::map<std::pair<std::string, int>, Between> between_;  // that were looked up
};

}  // namespace sinew
