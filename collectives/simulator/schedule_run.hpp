#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include <sinew/collectives/simulator/cast.hpp>
#include <sinew/collectives/simulator/routes.hpp>

namespace sinew {

/// One schedule on a clock, as simulate() says.
class ScheduleRun {
 public:
  ScheduleRun(const Cast& cast, const Network& network, const SimulationOptions& options);
  Forecast run();

 private:
  /// One instance of a program under way: a segment of a call.
  struct Instance {
    std::uint32_t segment = 0;
    std::vector<std::uint32_t> waits_for;
    std::vector<char> posted;    // by step: a message whose other end has not posted it
    std::size_t steps_left = 0;  // 0: nothing is under way here
  };
  /// The other end of a message, which is the same in all segments.
  struct Partner {
    std::uint32_t kind = 0, step = 0;
    const Routes::Way* way = nullptr;
  };
  struct Rank {
    const Executable* code = nullptr;
    std::vector<Partner> partners;    // by Executable::message_of_step
    std::vector<Instance> instances;  // `depth` of them
    std::uint32_t next_segment = 0;
    Seconds busy_until = 0;  // with copies and sums
  };
  /// A step of one instance of one kind of rank.
  struct At {
    std::uint32_t kind = 0, instance = 0, step = 0;
    Seconds since = 0;
  };
  struct Message {
    At send, recv;
    double bytes = 0;
    const Routes::Way* way = nullptr;
    Seconds start = 0;
  };
  struct Event {
    Seconds at;
    std::uint64_t order;  // of two at a time the one that was known first
    At step;
    std::int64_t message;  // below 0: the step is over; else this one's bytes begin to flow
    bool operator>(const Event& e) const { return at != e.at ? at > e.at : order > e.order; }
  };

  void find_partners();
  void start_segment(std::uint32_t kind, std::uint32_t instance);
  void begin(At at);
  void compute(const At& at, double bytes, double bytes_per_s);
  void take_turns();
  void post(const At& at, const Step& step);
  void flow(std::uint64_t message);
  void arrive(std::uint64_t message);
  void over(const At& at);
  void advance_to(Seconds next);
  Forecast forecast() const;

  Rank& rank(std::uint32_t kind) { return ranks_[kind]; }
  Partner& partner_of(const At& at) {
    Rank& r = ranks_[at.kind];
    return r.partners[r.code->message_of_step[at.step]];
  }
  double bytes(const At& at, const Slice& slice) const;

  const Cast& cast_;
  const Network& network_;
  const SimulationOptions& options_;
  Routes routes_;
  std::vector<Rank> ranks_;  // by kind
  std::uint32_t segments_ = 1;
  std::vector<Seconds> segment_end_;
  std::size_t segments_left_ = 0;  // of all ranks
  Seconds now_ = 0;
  std::vector<At> ready_;                           // may begin now
  std::vector<std::pair<At, Seconds>> to_compute_;  // from now on, in turns, for so long
  std::vector<Message> messages_;
  std::vector<std::uint64_t> spare_messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  std::vector<std::uint64_t> ended_;
  std::vector<Forecast::Span> time_line_;
};

}  // namespace sinew
