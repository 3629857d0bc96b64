#pragma once

#include <string>
#include <vector>

#include <sinew/collectives/selection/facts.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// What one rank brings to the gathering.
struct LocalFacts {
  std::string host_id;
  std::string process_id;  ///< equal for ranks that are threads of one process
  int usable_cores = 1;
  std::vector<OpenedTransport> transports;
  int device = -1;
  std::string no_device;       ///< why there is none
  DeviceLinks links{};         ///< of the device
  int nic = 0;                 ///< Facts::Rank
  bool measures = true;        ///< Facts::measures
  bool measures_again = true;  ///< Facts::measures_again
};

struct GatheredFacts {
  Facts facts;
  std::vector<std::vector<Address>> addresses;  ///< [rank][index into facts.transports]; empty: not opened there
};

/// Makes the table that all ranks share. Collective: three rounds.
/// Errors: InvalidArgument where library versions or user rules differ, showing both; Timeout of the exchange.
SINEW_API GatheredFacts gather_facts(const Exchange& exchange, const LocalFacts& mine, const Config& config);

}  // namespace sinew
