#pragma once

#include <functional>
#include <string>

namespace sinew::test {

/// What `question` answers, up to 4 KiB, in a process of its own: a driver that was started in this one could not be
/// used by ranks that fork off later. "the process ended without an answer" where it did.
std::string asked_in_child(const std::function<std::string()>& question);

}  // namespace sinew::test
