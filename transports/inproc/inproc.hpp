#pragma once

#include <cstdint>
#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/core/fabric.hpp>

/// The reference transport: ranks that are threads of one process. Every message is a rendezvous: the sender offers
/// its buffer, the receiver copies or reduces from there, the sender is told.
namespace sinew::inproc {

SINEW_API Module& module();

/// What the module's fabric opens, without a World.
SINEW_API std::unique_ptr<Transport> make_transport(int rank, std::uint8_t generation);

}  // namespace sinew::inproc
