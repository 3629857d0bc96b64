#pragma once

#include <span>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// What a host is made of, as far as messages meet it. Units: of LinkRate, each way.
struct HostModel {
  std::string_view name;
  int ranks = 1;
  int nics = 1;
  LinkRate rank;    ///< rank <-> what joins the ranks of a host
  LinkRate memory;  ///< which all of them share; of no rate where a switch joins them
  LinkRate pci;     ///< rank <-> its NIC
  LinkRate nic;     ///< NIC <-> leaf switch
  LinkRate leaf;    ///< leaf <-> spine: its latency; the rate follows from the NICs
  double reduce_bytes_per_s = 0;
  double copy_bytes_per_s = 0;
};

/// From public datasheets: dgx-a100, dgx-h100, dgx-h200, dgx-b200, epyc-2s, xeon-2s.
SINEW_API std::span<const HostModel> host_models() noexcept;
/// Errors: Error{InvalidArgument} that lists the known names.
SINEW_API const HostModel& host_model(std::string_view name);

/// So many of them. Errors of all: Error{InvalidArgument} that names the number which is out of range.
SINEW_API Network one_switch(const HostModel& host, int hosts);
SINEW_API Network fat_tree(const HostModel& host, int hosts, int hosts_per_leaf, double oversubscription = 1);
SINEW_API Network rail_optimised(const HostModel& host, int hosts, double oversubscription = 1);

}  // namespace sinew
