#pragma once

#include <string>

#include <sinew/core/call/cost.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// What there is beyond the functions that every version has. Agreed: a rank that has more does without.
struct Features {
  bool split = false;
  bool registration = false;  ///< and memory made for it
  bool windows = false;       ///< which need `registration`'s memory
  bool all_to_all = false;
  bool gather = false;
  bool scatter = false;
};

Features features_of(const Api& api) noexcept;
/// Of two ranks together.
Features common_to(const Features& a, const Features& b) noexcept;

/// "NCCL 2.18.5 has no ncclCommRegister, which is there from 2.19.0 on"; of a version that should have it, that a rank
/// does not.
std::string lack_of(const char* function, int first_version, int version);

/// True if this NCCL lets calls of different communicators start on a device in the order in which they were made: from
/// 2.26 on, and only if the user has set NCCL_LAUNCH_ORDER_IMPLICIT=1.
bool orders_itself(int version) noexcept;

}  // namespace sinew::nccl
