#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fakes/fake_device.hpp"

namespace sinew::fake {

/// Makes the step of one replay.
using StepMaker = std::function<Step()>;

/// A recorded capture: lanes, which are the streams that it drew in, and nodes in the order in which they came.
/// A replay runs the lanes in any order among each other, except where one waits for an event of another.
struct SINEW_FAKE_API Graph {
  struct Node {
    enum class Kind { Work, Record, Wait } kind;
    std::size_t lane = 0;
    StepMaker make;         ///< of Work
    std::size_t event = 0;  ///< of Record and Wait
  };
  struct Lane {
    void* stream = nullptr;
    std::size_t nodes = 0;   ///< so far
    std::size_t joined = 0;  ///< as many of them another lane has waited for
  };
  struct Event {
    std::size_t lane = 0;
    std::size_t nodes = 0;  ///< of the lane, before the event
  };

  std::uint64_t number = 0;
  bool over = false;
  std::string broken;  ///< why it gives no graph; empty: it does
  std::vector<Lane> lanes;
  std::vector<Node> nodes;
  std::vector<Event> events;

  std::size_t lane_of(void* stream);
  void add_work(void* stream, StepMaker make);
  std::size_t record(void* stream);
  void wait(void* stream, std::size_t event);
  /// Why the capture cannot end, as a lane has work that the first one never waited for; empty: it can.
  std::string unjoined() const;
};

}  // namespace sinew::fake
