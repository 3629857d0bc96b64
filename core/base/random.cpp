#include <sys/random.h>

#include <cerrno>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno != EINTR) throw_errno("random bytes from the kernel");
    if (n > 0) out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::uint64_t random_id() {
  std::uint64_t id = 0;
  fill_random(std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

}  // namespace sinew
