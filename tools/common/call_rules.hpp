#pragma once

#include <optional>
#include <string>

#include <sinew/core/call/collective.hpp>
#include <sinew/core/numeric/codec.hpp>

namespace sinew::tools {

/// An option that does not go with the others.
struct OptionFault {
  std::string option;   ///< "--codec"
  std::string problem;  ///< what was found and expected
};

/// Why there is no such call; known before there are ranks to make it. nullopt: there is.
std::optional<OptionFault> fault_of(Collective collective, DType dtype, ReduceOp op, Codec codec);

}  // namespace sinew::tools
