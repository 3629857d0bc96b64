#include <dlfcn.h>

#include <string_view>

#include <sinew/transports/saved_signal_handlers.hpp>

namespace sinew {
namespace {

bool is_of_libucs(const void* handler) {
  Dl_info where{};
  return handler != nullptr && ::dladdr(handler, &where) != 0 &&
         std::string_view(where.dli_fname).find("libucs") != std::string_view::npos;
}

}  // namespace

SavedSignalHandlers::SavedSignalHandlers() noexcept {
  for (int s = 1; s < NSIG; ++s) ::sigaction(s, nullptr, &before_[static_cast<std::size_t>(s)]);
}

SavedSignalHandlers::~SavedSignalHandlers() {
  for (int s = 1; s < NSIG; ++s) {
    const struct sigaction& before = before_[static_cast<std::size_t>(s)];
    struct sigaction now {};
    if (::sigaction(s, nullptr, &now) != 0 || now.sa_handler == before.sa_handler) continue;
    if (!is_of_libucs(reinterpret_cast<const void*>(now.sa_handler))) ::sigaction(s, &before, nullptr);
  }
}

}  // namespace sinew
