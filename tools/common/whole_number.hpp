#pragma once

#include <cstdint>

namespace CLI {
class Validator;
}

namespace sinew::tools {

/// For option->transform(): runs before the text becomes a number, so that the limits are named however large it is.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

}  // namespace sinew::tools
