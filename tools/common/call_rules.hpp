#pragma once

#include <optional>
#include <string>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/numeric/codec.hpp>

namespace sinew::tools {

/// An option that contradicts the others.
struct OptionFault {
  std::string option;   ///< "--codec"
  std::string problem;  ///< what was found and expected
};

/// Tells why no call can have these options. It can be asked before there are ranks. nullopt: there is such a call.
std::optional<OptionFault> fault_of(Collective collective, DType dtype, ReduceOp op, Codec codec);

}  // namespace sinew::tools
