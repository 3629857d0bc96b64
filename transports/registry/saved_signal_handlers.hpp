#pragma once

#include <array>
#include <csignal>

namespace sinew {

/// Saves all signal handlers and restores them in its destructor. Libraries may install handlers while they are loaded:
/// libinfinipath, which libfabric may load, does so even for SIGTERM. Handlers of libucs stay, since the user may have
/// asked for them. The module ucx decides about those.
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
