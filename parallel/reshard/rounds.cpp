#include <algorithm>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/reshard/rounds.hpp>

namespace sinew::parallel {
namespace {

/// The bytes that one rank sends, or that it receives, in each round.
class RoundBytes {
 public:
  std::uint64_t in(std::size_t round) const { return round < bytes_.size() ? bytes_[round] : 0; }
  /// All earlier rounds are full, or nearly so.
  std::size_t first_open() const { return first_open_; }
  void add(std::size_t round, std::uint64_t bytes, std::uint64_t most) {
    if (round >= bytes_.size()) bytes_.resize(round + 1, 0);
    bytes_[round] += bytes;
    while (first_open_ < bytes_.size() && bytes_[first_open_] + most / kNearlyFull > most) ++first_open_;
  }

 private:
  static constexpr std::uint64_t kNearlyFull = 64;  // less than this part of a round is not worth a search

  std::vector<std::uint64_t> bytes_;
  std::size_t first_open_ = 0;
};

/// Takes messages of a certain length from a flow, one after the other.
class FlowReader {
 public:
  explicit FlowReader(const Flow& of) : of_(&of) {}

  bool ended() const { return at_ == of_->segments.size(); }
  const Flow& flow() const { return *of_; }

  std::pair<std::vector<ReshardSegment>, std::uint64_t> next(std::uint64_t most) {
    std::vector<ReshardSegment> segments;
    std::uint64_t bytes = 0;
    while (!ended()) {
      ReshardSegment rest = of_->segments[at_];
      const std::uint64_t element = size_of(rest.travels);
      rest.first += taken_;
      rest.count = std::min(rest.count - taken_, static_cast<std::int64_t>((most - bytes) / element));
      if (rest.count == 0) break;
      segments.push_back(rest);
      bytes += rest.bytes();
      taken_ += rest.count;
      if (taken_ < of_->segments[at_].count) break;
      ++at_;
      taken_ = 0;
    }
    return {std::move(segments), bytes};
  }

 private:
  const Flow* of_;
  std::size_t at_ = 0;
  std::int64_t taken_ = 0;
};

class RoundMaker {
 public:
  RoundMaker(std::size_t ranks, std::uint64_t most) : most_(most), sent_(ranks), received_(ranks) {}

  /// Puts the message into the first round from `earliest` on that has room.
  void place(ReshardMessage& message, std::size_t earliest) {
    RoundBytes &out = sent_[at(message.from)], &in = received_[at(message.to)];
    std::size_t round = std::max({earliest, out.first_open(), in.first_open()});
    while (out.in(round) + message.bytes > most_ || in.in(round) + message.bytes > most_) ++round;
    out.add(round, message.bytes, most_);
    in.add(round, message.bytes, most_);
    message.round = static_cast<std::int32_t>(round);
    rounds_ = std::max(rounds_, round + 1);
  }

  std::size_t rounds() const { return rounds_; }
  std::uint64_t most_in_flight() const {
    std::uint64_t most = 0;
    for (std::size_t r = 0; r < sent_.size(); ++r) {
      for (std::size_t k = 0; k < rounds_; ++k)
        most = std::max(most, sent_[r].in(k) + received_[r].in(k) + sent_[r].in(k + 1) + received_[r].in(k + 1));
    }
    return most;
  }

 private:
  std::uint64_t most_;
  std::vector<RoundBytes> sent_, received_;
  std::size_t rounds_ = 0;
};

}  // namespace

void fill_rounds(ReshardPlan& plan, const std::vector<Flow>& flows, std::size_t ranks, std::size_t bytes_in_flight) {
  constexpr std::size_t kMessagesPerRound = 4;               // so that a rank talks to several peers at once
  const std::uint64_t most = bytes_in_flight / 4 / 64 * 64;  // each way in a round, of which two are in flight
  const std::uint64_t message_bytes = most / kMessagesPerRound / 16 * 16;
  RoundMaker maker(ranks, most);
  std::vector<FlowReader> readers(flows.begin(), flows.end());
  // Flows take turns, so that each rank talks to all of its peers from the start.
  for (bool any = true; any;) {
    any = false;
    for (FlowReader& reader : readers) {
      if (reader.ended()) continue;
      any = true;
      const Flow& flow = reader.flow();
      auto [segments, bytes] = reader.next(message_bytes);
      ReshardMessage message{flow.from, flow.to, 0, flow.across_hosts, false, bytes, std::move(segments)};
      maker.place(message, 0);
      const auto round = static_cast<std::size_t>(message.round);
      for (const int to : flow.passed_to) {
        ReshardMessage next{flow.to, to, 0, false, true, bytes, message.segments};
        maker.place(next, round + 2);
        plan.messages.push_back(std::move(next));
      }
      plan.messages.push_back(std::move(message));
    }
  }
  std::ranges::stable_sort(plan.messages, {}, &ReshardMessage::round);
  plan.rounds = static_cast<std::int32_t>(maker.rounds());
  plan.most_in_flight = maker.most_in_flight();
}

}  // namespace sinew::parallel
