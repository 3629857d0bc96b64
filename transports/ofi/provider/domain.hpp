#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include <sinew/core/fabric.hpp>

namespace sinew::ofi {

/// The most rails between two ranks.
inline constexpr std::size_t kMostRails = 4;

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

/// Offers that may carry parts of the messages between two hosts beside `best`: wanted ones of the same provider over
/// TCP, with IPv4, each on another network and another interface. The parts are equal, so the interfaces must say the
/// same speed. At most kMostRails with `best`. Empty for other providers: there each rank has its own NIC.
std::vector<const fi_info*> further_rails(const fi_info* offers, const fi_info& best, const Wish& wish);

}  // namespace sinew::ofi
