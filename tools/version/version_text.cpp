#include "version_text.hpp"

#include <fmt/format.h>

#include <sinew/core/base/version.hpp>

#include "built_from.hpp"

namespace sinew::tools {

std::string version_text() { return fmt::format("sinew {}\ncommit: {}\n{}", version(), SINEW_COMMIT, SINEW_PARTS); }

}  // namespace sinew::tools
