#pragma once

#include <chrono>

namespace sinew::python {

/// The time that a wait lasts before Python's signal handlers run.
inline constexpr std::chrono::milliseconds kSignalPause{100};

/// The number of such pauses after which a wait counts as slow: then its call is named by the line of Python.
inline constexpr int kPausesBeforeSlow = 2;

}  // namespace sinew::python
