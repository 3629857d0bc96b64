#pragma once

#include <utility>

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// Runs a user's callback. If it throws, the World of `ranks` ends on all ranks with the text of the exception, because
/// the other ranks would wait for this one. Then the exception is rethrown unchanged.
/// doing: returns the purpose of the callback, such as "forward of stage 1". It is called only after an exception.
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
