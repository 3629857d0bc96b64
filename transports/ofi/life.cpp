#include <poll.h>

#include <sinew/transports/ofi/life.hpp>

namespace sinew::ofi {

bool has_ended(int life) noexcept {
  if (life < 0) return false;
  pollfd p{life, POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace sinew::ofi
