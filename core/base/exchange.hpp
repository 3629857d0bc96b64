#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// What a World needs to come to life: who am I, how many are we, and one collective operation.
/// `all_gather` returns everybody's bytes by rank; every rank calls it the same number of times, only inside
/// World::create. It throws Error{Timeout} naming the ranks that did not come.
struct Exchange {
  int rank = 0;
  int size = 1;
  std::function<std::vector<Bytes>(const Bytes& mine)> all_gather;
  /// Throws where a rank is known not to come any more; asked while ranks wait for each other by other means. May be
  /// empty.
  std::function<void()> check = {};
};

/// Exchanges for `size` ranks that are threads of this process; element r goes to the thread of rank r.
/// A thread that ends without coming makes the others throw Timeout after `timeout`.
SINEW_API std::vector<Exchange> thread_exchanges(int size, Duration timeout);

/// The exchange of a world of one.
SINEW_API Exchange exchange_alone();

/// The exchange among `members` (ranks of `base`, ascending, containing base.rank), made of base's own rounds:
/// all ranks of base must call it together, each with its own group.
SINEW_API Exchange exchange_among(const Exchange& base, std::vector<int> members);

}  // namespace sinew
