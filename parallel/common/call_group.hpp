#pragma once

// Helpers that several rooms of `parallel` use. They are about calls: the caller's source line, work that is awaited,
// the place of a rank in a group. They are also about numbers: rows of matrices, the interface to matrix products,
// random numbers by name. Tables of rules are here too. The room includes no other room.

#include <source_location>

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// A communicator that a program passes to a strategy, and the source line where it does. Errors about the strategy's
/// calls show this line, and a label from the strategy, instead of a line in sinew's own sources.
/// Use it as a parameter type: a Communicator converts to it and records the caller's line. Pass the CallGroup on, not
/// the communicator, to keep the line. With std::make_unique or emplace, make the CallGroup first: otherwise the
/// recorded line is one of the standard library.
/// Lifetime: the communicator must outlive it.
class CallGroup {
 public:
  CallGroup(Communicator& of, const std::source_location& where = std::source_location::current()) noexcept
      : of_(&of), where_(where) {}

  Communicator* operator->() const noexcept { return of_; }
  Communicator& operator*() const noexcept { return *of_; }
  operator Communicator&() const noexcept { return *of_; }
  const std::source_location& where() const noexcept { return where_; }

  /// Options for a call with this label and the recorded line. The label must stay valid until the call has ended.
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
