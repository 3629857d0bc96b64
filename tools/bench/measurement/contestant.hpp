#pragma once

#include <cstddef>

namespace sinew::tools {

/// A library whose calls are measured: sinew, or a peer.
class Contestant {
 public:
  virtual ~Contestant() = default;
  /// Makes `calls` calls, one after the other, on the slots from `first_slot` on, and returns when the last is done.
  virtual void run(std::size_t first_slot, std::size_t calls) = 0;
  /// Called after the last call of a batch, untimed, before the ranks wait for each other elsewhere. Some libraries go
  /// on with a rank's messages only during its later calls.
  virtual void settle() {}
};

}  // namespace sinew::tools
