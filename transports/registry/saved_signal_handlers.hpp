#pragma once

#include <array>
#include <csignal>

namespace sinew {

/// Whatever libraries install for signals while this lives goes when it ends, and what was there before is back: some
/// do so as they are loaded (libinfinipath, which libfabric may need, even for SIGTERM). Except what libucs installs:
/// its users may have asked for that, which the module ucx knows.
class SavedSignalHandlers {
 public:
  SavedSignalHandlers() noexcept;
  ~SavedSignalHandlers();
  SavedSignalHandlers(const SavedSignalHandlers&) = delete;
  SavedSignalHandlers& operator=(const SavedSignalHandlers&) = delete;

 private:
  std::array<struct sigaction, NSIG> before_{};
};

}  // namespace sinew
