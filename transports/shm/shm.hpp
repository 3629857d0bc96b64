#pragma once

#include <cstdint>
#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/core/fabric.hpp>

/// Ranks of one host through memory that each lets the others read. Nobody writes into another's memory: what a stopped
/// rank does when it goes on hurts nobody. See layout.hpp for what lies where.
namespace sinew::shm {

SINEW_API Module& module();

/// What the module's fabric opens, without a World.
SINEW_API std::unique_ptr<Transport> make_transport(HostPeers& host, int rank, std::uint8_t generation);

}  // namespace sinew::shm
