#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// The things that all threads of a process share, in the order of locking. A thread that holds the lock of one may ask
/// for those of later ones only.
enum class OfProcess : std::uint8_t {
  PmixSession,
  Pmi1Line,
  HostedStores,
  Rendezvous,
  ControlPlanes,
  ListeningPorts,
  ControlThread,
  Metrics,
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

/// Holds the lock of something that the process shares. If another thread holds a lock during fork(), the lock is free
/// in the child, which does not have that thread. A static std::mutex would stay locked there, and the child would wait
/// for ever.
/// fork() first takes all locks, so that the child finds no half-written state. It waits for a second at most, because
/// a thread that connects to a launcher may hold a lock for longer.
/// Thread: any.
/// Cost:   that of a std::mutex.
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
