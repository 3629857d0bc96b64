#pragma once

#include <string>

namespace sinew::run {

/// As the kernel calls it, with its domain where that has one.
std::string own_host_name();
/// This host, by its name or that of its loopback.
bool is_this_host(const std::string& name);

}  // namespace sinew::run
