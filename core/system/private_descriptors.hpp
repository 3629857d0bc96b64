#pragma once

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The descriptors of this process that a child of fork() must not keep. A handler of pthread_atfork drops them in the
/// child: it puts a descriptor that can be neither read nor written in the place of each, because objects in the
/// child's memory still know the numbers. Without this, a data loader's worker would keep a dead rank's connections
/// open, and its ports taken.
/// Limits: a child of clone() called directly, or of _Fork(), runs no such handlers and keeps them all, and what a
///         thread opens or closes in the very moment of a fork may stay open in the child. What tells a process's death
///         must not depend on this: see docs/survival.md.
/// Thread: any, without a lock: fork() may come at any time, on any thread.
class SINEW_API PrivateDescriptors {
 public:
  /// Negative numbers are none.
  static void add(int descriptor) noexcept;
  /// Before it is closed: its number may soon be another's.
  static void remove(int descriptor) noexcept;
};

}  // namespace sinew
