#pragma once

#include <cstdint>

#include <sinew/core/transport.hpp>

namespace sinew::ofi {

/// What every frame from one rank to one transport of another carries: 8 bytes that only those who know the job's
/// secret can make. It is no seal over the frame: who can read the wire can repeat it.
std::uint64_t session_key(const Bytes& secret, int from_rank, int to_rank, std::uint64_t to_instance);

}  // namespace sinew::ofi
