#pragma once

#include <functional>
#include <thread>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// A thread that the user's signals never reach: all are blocked in it from its first instruction on.
SINEW_API std::thread thread_without_signals(std::function<void()> body);

}  // namespace sinew
