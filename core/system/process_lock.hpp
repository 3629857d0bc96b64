#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// What all threads of a process share, in the order of locking: a thread that holds one may ask for later ones only.
enum class OfProcess : std::uint8_t {
  PmixSession,
  Pmi1Line,
  HostedStores,
  ControlPlanes,
  ListeningPorts,
  ControlThread,
  ProcessToken,
  Modules,
  ShadowedModules,
  Topology,  ///< libudev, which hwloc asks, seeds a global without a lock
  Handles,
  CallSites,
  Constants,  ///< those of MadeOnce
  LocalRanks,
  Mailboxes,
  LeftToParent,
  Bindings,  ///< lists of Python and PyTorch, each for a few instructions
  Log,
};

/// Holds the lock of something that the process shares, in its scope. In a child of fork() all these locks are free,
/// also if another thread of the parent held one. fork() waits until it has all of them, so that the child finds no
/// half-written state, but for no longer than a second: a thread that connects may hold one for longer.
/// A static std::mutex would stay locked in such a child, which would wait for it for ever.
/// Thread: any.
/// Cost:   as a std::mutex.
class SINEW_API ProcessLock {
 public:
  explicit ProcessLock(OfProcess what) noexcept;
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  const OfProcess what_;
};

}  // namespace sinew
