#pragma once

#include <initializer_list>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::run {

/// Signals of this process as something to read, without those that whoever started it wants ignored (nohup, a shell's
/// `&`). SIGCHLD is never one of these, for it and for its children: who ignores it is not told of any child's end.
/// SIGPIPE is ignored from then on: writes say EPIPE.
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
