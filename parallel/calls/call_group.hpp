#pragma once

#include <source_location>

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// The communicator of a strategy, with the line of the program that gave it to the strategy. Errors and verdicts about
/// the strategy's calls show that line and a label of the strategy's, in place of a line of its source.
/// A parameter of this type takes a Communicator, and the place of the call with it. Who passes the CallGroup on keeps
/// that place. std::make_unique and emplace would make one inside of the standard library: give them a CallGroup.
/// Lifetime: ends before the communicator.
class CallGroup {
 public:
  CallGroup(Communicator& of, const std::source_location& where = std::source_location::current()) noexcept
      : of_(&of), where_(where) {}

  Communicator* operator->() const noexcept { return of_; }
  Communicator& operator*() const noexcept { return *of_; }
  operator Communicator&() const noexcept { return *of_; }
  const std::source_location& where() const noexcept { return where_; }

  /// Of a call that is for `label`, which stays until the call has ended.
  CallOptions options(const char* label, CallOptions others = {}) const noexcept {
    others.label = label;
    others.where = where_;
    return others;
  }

 private:
  Communicator* of_;
  std::source_location where_;
};

}  // namespace sinew::parallel
