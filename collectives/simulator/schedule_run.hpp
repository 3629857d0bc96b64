#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <sinew/collectives/simulator/cast.hpp>
#include <sinew/collectives/simulator/network_costs.hpp>
#include <sinew/collectives/simulator/routes.hpp>
#include <sinew/collectives/simulator/time_queue.hpp>

namespace sinew {

/// One schedule on a clock, as simulate() says.
class ScheduleRun {
 public:
  ScheduleRun(const Cast& cast, const Network& network, const SimulationOptions& options);
  Forecast run();

 private:
  static constexpr std::uint64_t kMany = ~std::uint64_t{0};
  static constexpr std::uint32_t kPosted = ~std::uint32_t{0};  // a message whose other end has not posted it

  /// A step of a kind of ranks, the same in all segments: what a run looks at again and again, side by side.
  struct Deed {
    std::uint32_t waits_for = 0;       // so many others
    std::uint32_t first_follower = 0;  // of followers_; the next deed's are behind them
    std::uint32_t partner = 0;         // the deed at the other end of a message
    std::uint32_t partner_kind = 0;
    Routes::Way way{};               // of a message
    std::uint64_t elements = kMany;  // moved; kMany: of several chunks, or coded
    Op op = Op::Copy;
    bool reduces = false;  // a Recv
  };
  /// One instance of a program under way: a segment of a call.
  struct Instance {
    std::uint32_t segment = 0;
    std::uint32_t steps_left = 0;  // 0: nothing is under way here
  };
  struct Rank {
    const Executable* code = nullptr;
    std::uint32_t first_deed = 0;
    std::uint32_t next_segment = 0;
    Seconds busy_until = 0;  // with copies and sums
  };
  /// A deed of one instance of one kind of rank.
  struct At {
    std::uint32_t kind = 0, instance = 0, deed = 0;
    Seconds since = 0;
  };
  struct Message {
    At send, recv;
    double bytes = 0;
    int path = -1;
    Seconds start = 0;
  };
  struct Event {
    At step;
    std::int64_t message = -1;  // below 0: the step is over; else this one's bytes begin to flow
  };

  void add_deeds(std::uint32_t kind);
  void find_partners();
  void start_segment(std::uint32_t kind, std::uint32_t instance);
  void begin(At at);
  void compute(const At& at, LocalStep step);
  void take_turns();
  void post(const At& at);
  void flow(std::uint64_t message);
  void arrive(std::uint64_t message);
  void over(const At& at);
  void add_span(const At& at, std::uint32_t segment);
  void advance_to(Seconds next);
  Forecast forecast() const;

  Instance& instance(std::uint32_t kind, std::uint32_t i) { return instances_[kind * depth_ + i]; }
  /// Of a deed of an instance, how many others it still waits for, or kPosted.
  std::uint32_t& state(std::uint32_t deed, std::uint32_t instance) { return states_[deed * depth_ + instance]; }
  const Step& step(const At& at) const {
    const Rank& rank = ranks_[at.kind];
    return rank.code->program.steps[at.deed - rank.first_deed];
  }
  double bytes(const At& at) const;
  double bytes_of_chunks(const At& at, std::uint32_t segment) const;

  const Cast& cast_;
  const Network& network_;
  const NetworkCosts costs_;
  const SimulationOptions& options_;
  Routes routes_;
  std::vector<Rank> ranks_;  // by kind
  std::vector<Deed> deeds_;  // of all of them, and one more
  std::vector<std::uint32_t> followers_;
  std::uint32_t segments_ = 1;
  std::uint32_t depth_ = 1;
  std::vector<Instance> instances_;    // `depth_` of each rank
  std::vector<std::uint32_t> states_;  // of each deed, in so many instances
  std::vector<Seconds> segment_end_;
  std::size_t segments_left_ = 0;  // of all ranks
  Seconds now_ = 0;
  std::vector<At> ready_, begins_;                  // may begin now, and those of them that do
  std::vector<std::pair<At, Seconds>> to_compute_;  // from now on, in turns, for so long
  std::vector<Message> messages_;
  std::vector<std::uint64_t> spare_messages_;
  TimeQueue<Event> events_;
  std::vector<std::uint64_t> ended_;
  std::vector<Forecast::Span> time_line_;
};

}  // namespace sinew
