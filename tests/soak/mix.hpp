#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <support/collective_case.hpp>

#include "footprint.hpp"

namespace sinew::soak {

/// Random calls, the same on all ranks: everything that follows comes from one seed. Results are compared with what
/// they must be.
class Mix {
 public:
  Mix(World world, std::uint64_t seed) : world_(std::make_unique<World>(std::move(world))), random_(seed) {}

  /// One thing of the mix. Errors: as what it calls; what must not happen.
  void step();
  /// Gives up all but a new World, because what a rank holds grows with its communicators. Returns what this rank holds
  /// when that no longer changes.
  Footprint next_generation();
  /// Rank 0's will, on all ranks.
  bool all_go_on(bool mine);
  /// The largest of all ranks.
  std::int64_t largest(std::int64_t mine);

  const std::string& doing() const noexcept { return doing_; }
  std::uint64_t steps() const noexcept { return steps_; }
  std::uint64_t calls() const noexcept { return calls_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t wrong() const noexcept { return wrong_; }
  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }

 private:
  Footprint use_all_connections();
  /// As many for each step as any kind of step needs, so that ranks stay together.
  struct Draw {
    std::uint64_t kind, which, size, more;
  };

  Communicator& any(std::uint64_t which);
  std::uint64_t count_of(const Draw& draw) const noexcept;
  void checked_call(const Draw& draw);
  void calls_in_flight(const Draw& draw);
  void messages(const Draw& draw);
  void repeated_plan(const Draw& draw);
  void registered(const Draw& draw);
  void split_or_end(const Draw& draw);
  void abort_one(const Draw& draw);
  void count(std::uint64_t bytes) noexcept { ++calls_, bytes_ += bytes; }

  std::unique_ptr<World> world_;
  std::vector<Communicator> others_;
  std::map<int, std::vector<test::CollectiveCase>> cases_;  // by size of a group
  std::mt19937_64 random_;
  std::string doing_;
  std::uint64_t steps_ = 0, calls_ = 0, bytes_ = 0, wrong_ = 0;
};

}  // namespace sinew::soak
