#include "peer_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>

namespace sinew::doctor {

PeerMemory own_memory() {
  static const std::uint64_t content = random_id();
  return {::getpid(), reinterpret_cast<std::uint64_t>(&content), content};
}

std::string try_to_read(const PeerMemory& peer) {
  std::uint64_t seen = 0;
  const iovec local{&seen, sizeof seen};
  const iovec remote{reinterpret_cast<void*>(peer.address), sizeof seen};
  if (::process_vm_readv(peer.process, &local, 1, &remote, 1, 0) < 0) {
    return fmt::format("process_vm_readv from process {}: {}", peer.process, std::generic_category().message(errno));
  }
  if (seen != peer.content) {
    return fmt::format("process {} is another one here (separate process-id namespaces)", peer.process);
  }
  return {};
}

}  // namespace sinew::doctor
