#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// The means by which a World starts: this rank's number, the number of ranks, and one collective operation.
/// `all_gather` returns the bytes of all ranks, by rank. All ranks call it the same number of times, and only inside
/// World::create. It throws Error{Timeout} with the ranks that did not come.
struct Exchange {
  int rank = 0;
  int size = 1;
  std::function<std::vector<Bytes>(const Bytes& mine)> all_gather;
  /// Throws if it is known that a rank will not come any more. Ranks call it while they wait for each other by other
  /// means. It may be empty.
  std::function<void()> check = {};
  /// Takes part in the next round with the reason why this rank cannot go on, in place of bytes. The other ranks throw
  /// it. It may be empty. World::create sets it.
  std::function<void(const Status& why)> give_up = {};
};

/// Runs `step`, which must not wait for another rank, and returns its result. If it throws, exchange.give_up() tells
/// the other ranks, and the exception goes on when all ranks have come to the next round.
template <class Step>
decltype(auto) or_give_up(const Exchange& exchange, Step&& step) {
  try {
    return std::forward<Step>(step)();
  } catch (const std::exception& e) {
    if (exchange.give_up) exchange.give_up(status_of(e));
    throw;
  }
}

/// Makes the exchanges of `size` ranks that are threads of this process. Element r is for the thread of rank r. If a
/// thread ends without a call, the others throw Timeout after `timeout`.
SINEW_API std::vector<Exchange> thread_exchanges(int size, Duration timeout);

/// Makes the exchange of a World with one rank.
SINEW_API Exchange exchange_alone();

/// Makes an exchange among `members`, which are ascending ranks of `base` with base.rank among them. It is made of
/// rounds of `base`. So all ranks of `base` must use it at the same time, each with its own group.
SINEW_API Exchange exchange_among(const Exchange& base, std::vector<int> members);

}  // namespace sinew
