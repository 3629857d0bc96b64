#pragma once

#include <set>
#include <string>

namespace sinew::abuse {

/// What jobs could leave behind on this host: files in /dev/shm, sockets with names, listening ports.
std::set<std::string> what_is_there();

/// What is there now and was not before. libfabric's own files in /dev/shm, which its next job removes, do not count.
std::set<std::string> left_since(const std::set<std::string>& before);

}  // namespace sinew::abuse
