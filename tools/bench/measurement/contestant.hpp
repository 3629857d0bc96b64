#pragma once

#include <cstddef>

namespace sinew::tools {

/// Somebody who can do what is measured: sinew, or a peer.
class Contestant {
 public:
  virtual ~Contestant() = default;
  /// Makes `calls` calls, one after the other, on the slots from `first_slot` on, and returns when the last is done.
  virtual void run(std::size_t first_slot, std::size_t calls) = 0;
  /// After the last call of a batch, untimed, before ranks wait for each other elsewhere: some libraries go on with
  /// what a rank has sent in its later calls only.
  virtual void settle() {}
};

}  // namespace sinew::tools
