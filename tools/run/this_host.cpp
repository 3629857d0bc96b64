#include "this_host.hpp"

#include <sinew/core/system/host_name.hpp>

namespace sinew::run {

bool is_this_host(const std::string& name) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1" || name == host_name();
}

}  // namespace sinew::run
