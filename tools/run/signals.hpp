#pragma once

#include <initializer_list>

#include <sinew/core/file_descriptor.hpp>

namespace sinew::run {

/// Signals of this process as something to read. SIGPIPE is ignored from then on: writes say EPIPE.
class SignalDescriptor {
 public:
  explicit SignalDescriptor(std::initializer_list<int> numbers);
  int descriptor() const noexcept { return descriptor_.get(); }
  /// The next one that came; 0: none.
  int next() const;

 private:
  FileDescriptor descriptor_;
};

}  // namespace sinew::run
