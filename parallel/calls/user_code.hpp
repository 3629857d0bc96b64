#pragma once

#include <utility>

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// Calls what a user gave to a strategy. An exception of that code is thrown on as it is. It also ends the World of
/// `ranks` on all its ranks with its text: the others would wait for a rank that has left its place in the program.
/// doing(): what the code was called for, "forward of stage 1". It is called only after an exception.
template <class Doing, class Code>
decltype(auto) run_user_code(const Communicator& ranks, const Doing& doing, Code&& code) {
  try {
    return std::forward<Code>(code)();
  } catch (...) {
    ranks.abort_world_by_exception(doing());
    throw;
  }
}

}  // namespace sinew::parallel
