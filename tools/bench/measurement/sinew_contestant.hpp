#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/tools/bench/buffers/buffer_ring.hpp>
#include <sinew/tools/bench/cases/options.hpp>

#include "contestant.hpp"

namespace sinew::tools {

/// The description of a case's call, as the selector gets it. `count`: as CollectiveDesc counts.
/// Lifetime: `counts`, those of the v-forms, live as long as the description.
CollectiveDesc desc_of(const BenchOptions& options, std::uint64_t count, std::span<const std::uint64_t> counts,
                       int ranks);

/// sinew itself, measured through its public calls.
class SinewContestant : public Contestant {
 public:
  SinewContestant(const BenchOptions& options, Communicator& communicator, const BufferRing& ring, std::uint64_t count);
  void run(std::size_t first_slot, std::size_t calls) override;

 private:
  void call(std::size_t slot);
  void send_recv(std::size_t slot);
  void ping_pong(std::size_t slot);
  void stream(std::size_t first_slot, std::size_t calls);

  const BenchCase& what_;
  DType dtype_;
  ReduceOp op_;
  int root_;
  CallOptions options_;
  Communicator& communicator_;
  const BufferRing& ring_;
  std::vector<std::uint64_t> counts_;  // of the v-forms
};

}  // namespace sinew::tools
