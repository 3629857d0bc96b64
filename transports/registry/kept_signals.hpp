#pragma once

#include <array>
#include <csignal>

namespace sinew {

/// Whatever libraries install for signals while this lives goes when it ends, and what was there before is back: some
/// do so as they are loaded (libinfinipath, which libfabric may need, even for SIGTERM). Except what libucs installs:
/// its users may have asked for that, which the module ucx knows.
class KeptSignals {
 public:
  KeptSignals() noexcept;
  ~KeptSignals();
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  std::array<struct sigaction, NSIG> before_{};
};

}  // namespace sinew
