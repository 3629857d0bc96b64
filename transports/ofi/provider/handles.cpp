
#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/provider/handles.hpp>

namespace sinew::ofi {

void require(ssize_t result, std::string_view what) {
  if (result >= 0) return;
  throw Error(Code::Unavailable, fmt::format("ofi: {}: {}", what, fi_strerror(static_cast<int>(-result))));
}

}  // namespace sinew::ofi
