#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>
#include <sinew/topology/machine.hpp>

namespace sinew::doctor {

/// The interfaces that SINEW_INTERFACE names on a host.
struct NamedInterfaces {
  bool any_works = true;          ///< tcp listens on one of them at least, or none is named
  std::vector<Finding> findings;  ///< a warning, where one is not there, is down or has no address
};

/// Looks at the interfaces that `names` lists, as SINEW_INTERFACE does. If one of them works, names of RDMA devices are
/// no faults, since they are meant for ofi.
NamedInterfaces look_at_named(std::span<const Nic> nics, const std::string& names);

}  // namespace sinew::doctor
