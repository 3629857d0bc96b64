#include "this_host.hpp"

#include <unistd.h>

#include <array>

namespace sinew::run {

std::string own_host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool is_this_host(const std::string& name) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == own_host_name();
}

}  // namespace sinew::run
