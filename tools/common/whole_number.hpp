#pragma once

#include <cstdint>

namespace CLI {
class Validator;
}

namespace sinew::tools {

/// For option->transform(). Checks the text before CLI11 converts it, so that the message names the limits however
/// large the number is.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

}  // namespace sinew::tools
