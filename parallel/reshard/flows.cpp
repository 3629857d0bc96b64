#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/reshard/flows.hpp>
#include <sinew/parallel/reshard/source_balance.hpp>

namespace sinew::parallel {
namespace {

/// Segments by item, dtype and element. Segments that follow each other are joined.
std::vector<ReshardSegment> joined(std::vector<ReshardSegment> segments) {
  std::ranges::sort(segments, {}, [](const ReshardSegment& s) { return std::tuple(s.item, s.travels, s.first); });
  std::vector<ReshardSegment> all;
  for (const ReshardSegment& s : segments) {
    const bool follows = !all.empty() && all.back().item == s.item && all.back().travels == s.travels &&
                         all.back().first + all.back().count == s.first;
    if (follows) {
      all.back().count += s.count;
    } else {
      all.push_back(s);
    }
  }
  return all;
}

/// Gives the elements of a class away in their order.
class Reader {
 public:
  explicit Reader(const ElementClass& of) : of_(of) {}

  /// Appends the next `elements` elements to `to`.
  void take(std::int64_t elements, std::vector<ReshardSegment>& to) {
    while (elements > 0) {
      const ReshardSegment& segment = of_.segments[at_];
      const std::int64_t count = std::min(elements, segment.count - taken_);
      to.push_back({segment.item, segment.travels, segment.first + taken_, count});
      elements -= count;
      taken_ += count;
      if (taken_ == segment.count) {
        ++at_;
        taken_ = 0;
      }
    }
  }

 private:
  const ElementClass& of_;
  std::size_t at_ = 0;
  std::int64_t taken_ = 0;
};

/// The elements of a class that cross to a host, or that one rank gets from holders of its host.
struct Need {
  const ElementClass* of = nullptr;
  std::vector<int> receivers;  ///< ranks of one host that want them
  std::vector<int> sources;    ///< ranks that may send them
};

Demand demand_of(const Need& need, const std::vector<int>& eligible) {
  return {need.of->elements * static_cast<std::int64_t>(size_of(need.of->travels)), eligible};
}

class Flows {
 public:
  /// Divides the elements of a need among sources and receivers. Source i sends source_bytes[i]. Receiver i gets
  /// receiver_bytes[i] and passes these on to the other receivers. loads: bytes sent within hosts, by rank.
  void add(const Need& need, const std::vector<std::int64_t>& source_bytes,
           const std::vector<std::int64_t>& receiver_bytes, bool across_hosts, std::vector<std::int64_t>& loads) {
    Reader reader(*need.of);
    const auto element = static_cast<std::int64_t>(size_of(need.of->travels));
    std::size_t source = 0, receiver = 0;
    std::int64_t of_source = source_bytes[0], of_receiver = receiver_bytes[0];
    for (std::int64_t left = need.of->elements * element; left > 0;) {
      while (of_source == 0) of_source = source_bytes[++source];
      while (of_receiver == 0) of_receiver = receiver_bytes[++receiver];
      const std::int64_t bytes = std::min(of_source, of_receiver);
      const int to = need.receivers[receiver];
      std::vector<int> others = need.receivers;
      std::erase(others, to);
      loads[at(to)] += bytes * std::ssize(others);
      reader.take(bytes / element, segments_[Key{need.sources[source], to, std::move(others), across_hosts}]);
      of_source -= bytes;
      of_receiver -= bytes;
      left -= bytes;
    }
  }

  std::vector<Flow> take() {
    std::vector<Flow> flows;
    for (auto& [key, segments] : segments_) {
      const auto& [from, to, passed_to, across_hosts] = key;
      flows.push_back({from, to, passed_to, across_hosts, joined(std::move(segments))});
    }
    return flows;
  }

 private:
  using Key = std::tuple<int, int, std::vector<int>, bool>;
  std::map<Key, std::vector<ReshardSegment>> segments_;
};

/// The needs that cross hosts, and those within a host.
struct Needs {
  std::vector<Need> across, within;
};

Needs needs_of(const std::vector<ReshardFacts>& of_ranks, const std::vector<ElementClass>& classes,
               std::vector<std::vector<ReshardSegment>>& copies) {
  Needs needs;
  for (const ElementClass& of : classes) {
    std::map<int, std::vector<int>> holders_on, receivers_on;  // by host
    for (const int r : of.holders) holders_on[of_ranks[at(r)].host].push_back(r);
    for (const int r : of.wanters) {
      if (std::ranges::binary_search(of.holders, r)) {
        copies[at(r)].insert(copies[at(r)].end(), of.segments.begin(), of.segments.end());
      } else {
        receivers_on[of_ranks[at(r)].host].push_back(r);
      }
    }
    for (const auto& [host, receivers] : receivers_on) {
      const auto here = holders_on.find(host);
      if (here == holders_on.end()) {
        needs.across.push_back({&of, receivers, of.holders});
      } else {
        for (const int r : receivers) needs.within.push_back({&of, {r}, here->second});
      }
    }
  }
  return needs;
}

}  // namespace

std::vector<Flow> flows_of(const std::vector<ReshardFacts>& of_ranks, const std::vector<ElementClass>& classes,
                           std::vector<std::vector<ReshardSegment>>& copies) {
  copies.assign(of_ranks.size(), {});
  const Needs needs = needs_of(of_ranks, classes, copies);
  std::vector<std::int64_t> sent(of_ranks.size(), 0), received(of_ranks.size(), 0), within(of_ranks.size(), 0);
  std::vector<Demand> of_sources, of_receivers, of_neighbours;
  for (const Need& need : needs.across) {
    of_sources.push_back(demand_of(need, need.sources));
    of_receivers.push_back(demand_of(need, need.receivers));
  }
  const auto source_bytes = balanced_shares(of_sources, sent), receiver_bytes = balanced_shares(of_receivers, received);
  Flows flows;
  for (std::size_t i = 0; i < needs.across.size(); ++i)
    flows.add(needs.across[i], source_bytes[i], receiver_bytes[i], true, within);
  for (const Need& need : needs.within) of_neighbours.push_back(demand_of(need, need.sources));
  const auto neighbour_bytes = balanced_shares(of_neighbours, within);
  for (std::size_t i = 0; i < needs.within.size(); ++i)
    flows.add(needs.within[i], neighbour_bytes[i], {of_neighbours[i].bytes}, false, within);
  for (std::vector<ReshardSegment>& segments : copies) segments = joined(std::move(segments));
  return flows.take();
}

}  // namespace sinew::parallel
