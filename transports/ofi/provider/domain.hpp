#pragma once

#include <rdma/fabric.h>

#include <string_view>

#include <sinew/core/fabric.hpp>

namespace sinew::ofi {

/// Which of libfabric's offers a rank wants.
struct Wish {
  std::string_view provider{};    ///< of this one; empty: any
  std::string_view interfaces{};  ///< SINEW_INTERFACE: only domains of these, or of `nic`; empty: any
  NicName nic{};                  ///< the nearest to the rank, one of these
};

/// Is it this NIC's: by its PCI address where both are known, else by the domain's name? Some providers add to the
/// device's name what kind of endpoint it is for ("rdmap0s6-rdm").
bool is_of(const fi_info& offer, const NicName& nic);

/// Of a list of offers one of the nearest NIC, where all ranks' are in one network or it is in the network (libfabric's
/// fabric) that they would take without a wish: ranks in several might not reach each other. Else the first that leads
/// furthest. nullptr: none is as wanted.
const fi_info* best_of(const fi_info* offers, const Wish& wish);

}  // namespace sinew::ofi
