#include <unistd.h>

#include <array>

#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_errno("gethostname");
  return name.data();
}

}  // namespace sinew
