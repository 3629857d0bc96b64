#include <sinew/core/base/version.hpp>

namespace sinew {

std::string_view version() noexcept { return SINEW_VERSION_STRING; }

}  // namespace sinew
