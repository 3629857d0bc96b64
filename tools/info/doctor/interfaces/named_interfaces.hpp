#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew::doctor {

/// What a host makes of SINEW_INTERFACE.
struct NamedInterfaces {
  bool any_works = true;          ///< tcp listens on one of them at least, or none is named
  std::vector<Finding> findings;  ///< a warning, where one is not there, is down or has no address
};

/// `names`: as in SINEW_INTERFACE. An RDMA device's beside others is ofi's affair.
NamedInterfaces look_at_named(std::span<const Nic> nics, const std::string& names);

}  // namespace sinew::doctor
