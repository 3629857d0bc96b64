#pragma once

#include <string>

namespace sinew::run {

/// This host, by its name or that of its loopback.
bool is_this_host(const std::string& name);

}  // namespace sinew::run
