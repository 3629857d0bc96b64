#pragma once

#include <exception>
#include <memory>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

/// Lets a module make an offload over `base`. All ranks take `most` rounds, even if `make` throws.
/// Errors: those of `make`, after the rounds.
template <class Make>
std::unique_ptr<CollectiveOffload> in_rounds(const Exchange& base, int most, Make&& make) {
  int rounds = 0;
  const Exchange counted{base.rank, base.size, [&](const Bytes& mine) {
                           ++rounds;
                           return base.all_gather(mine);
                         }};
  std::unique_ptr<CollectiveOffload> offload;
  std::exception_ptr failure;
  try {
    offload = make(counted);
  } catch (...) {
    failure = std::current_exception();
  }
  for (; rounds < most; ++rounds) base.all_gather({});
  if (failure) std::rethrow_exception(failure);
  return offload;
}

}  // namespace sinew
