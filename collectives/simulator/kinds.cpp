#include <algorithm>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/simulator/kinds.hpp>

namespace sinew {
namespace {

using Colour = std::uint64_t;

struct StepMessage {
  int peer = 0;
  std::uint32_t match = 0;
  std::uint32_t step = 0;
  std::uint32_t peer_step = 0;
  bool sends = false;
};

Colour of_slice(Colour colour, const Slice& slice, const ChunkTable& chunks) {
  const auto& row = slice.space == Space::In ? chunks.in : slice.space == Space::Out ? chunks.out : chunks.scratch;
  colour = mix(colour, static_cast<std::uint64_t>(slice.space) << 32 | slice.count);
  for (std::uint32_t c = slice.first; c < slice.first + slice.count; ++c) colour = mix(colour, row[c].count);
  return colour;
}

/// The colour of a program before the first round. It does not depend on the peers.
Colour of_program(const Program& program, const ChunkTable& chunks) {
  Colour colour = program.whole ? 1 : 0;
  for (const Step& s : program.steps) {
    colour = mix(colour, static_cast<std::uint64_t>(s.op) << 8 | static_cast<std::uint64_t>(s.map));
    for (const Slice* slice : {&s.a, &s.b, &s.dst}) colour = of_slice(colour, *slice, chunks);
    for (std::uint32_t d = 0; d < s.deps.count; ++d) colour = mix(colour, program.dependencies[s.deps.first + d]);
    colour = mix(colour, s.deps.count);
  }
  return colour;
}

class Refinement {
 public:
  explicit Refinement(const Network& network)
      : network_(network),
        of_rank_(static_cast<std::size_t>(network.ranks())),
        of_host_(static_cast<std::size_t>(network.hosts)) {}

  void add(int rank, const Program& program, const CollectiveDesc& desc) {
    first_.push_back(messages_.size());
    const int host = network_.host_of(rank), place = network_.place_of(rank);
    const Colour where = mix(network_.nic_for_each_rank() ? 0 : static_cast<std::uint64_t>(place),
                             static_cast<std::uint64_t>(network_.leaf_of(host, network_.nic_of_place(place))));
    of_rank_[static_cast<std::size_t>(rank)] = mix(of_program(program, chunk_table(desc, program)), where);
    for (std::uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      if (step.op == Op::Send || step.op == Op::Recv)
        messages_.push_back({.peer = step.peer, .match = step.match, .step = s, .sends = step.op == Op::Send});
    }
    steps_.push_back(static_cast<std::uint32_t>(program.steps.size()));
  }

  std::optional<Kinds> find(std::size_t most) {
    first_.push_back(messages_.size());
    pair_up();
    for (std::size_t before = 0, now = colours(); now != before;) {
      if (now > most) return std::nullopt;
      refine();
      before = now;
      now = colours();
    }
    return kinds();
  }

 private:
  std::span<StepMessage> of(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return {messages_.data() + first_[r], first_[r + 1] - first_[r]};
  }

  void pair_up() {
    std::size_t ends = 0;
    for (int rank = 0; rank < network_.ranks(); ++rank) {
      for (StepMessage& m : of(rank)) {
        if (!m.sends) continue;
        const auto there = of(m.peer);
        const auto other = std::ranges::find_if(
            there, [&](const StepMessage& o) { return !o.sends && o.peer == rank && o.match == m.match; });
        if (other == there.end()) throw std::logic_error(fmt::format("a message from rank {} has one end only", rank));
        m.peer_step = other->step;
        other->peer_step = m.step;
        ends += 2;
      }
    }
    if (ends != messages_.size())
      throw std::logic_error(fmt::format("{} messages have one end only", messages_.size() - ends));
  }

  void refine() {
    if (shares_) look_at_hosts();
    next_.resize(of_rank_.size());
    for (int rank = 0; rank < network_.ranks(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const int host = network_.host_of(rank);
      Colour colour = mix(of_rank_[r], of_host_[static_cast<std::size_t>(host)]);
      for (const StepMessage& m : of(rank)) {
        const bool near = network_.host_of(m.peer) == host;
        colour = mix(mix(colour, of_rank_[static_cast<std::size_t>(m.peer)]),
                     static_cast<std::uint64_t>(m.peer_step) << 1 | (near ? 1 : 0));
      }
      next_[r] = colour;
    }
    of_rank_.swap(next_);
  }

  /// Combines the colours of the ranks of each host. If each rank has a NIC, their order on the host does not matter.
  void look_at_hosts() {
    const auto per_host = static_cast<std::size_t>(network_.ranks_per_host);
    for (std::size_t h = 0; h < of_host_.size(); ++h) {
      of_host_[h] = 0;
      for (std::size_t p = 0; p < per_host; ++p) {
        const Colour there = of_rank_[h * per_host + p];
        of_host_[h] = network_.nic_for_each_rank() ? of_host_[h] + mix(there, 1) : mix(of_host_[h], there);
      }
    }
  }

  std::size_t colours() {
    next_ = of_rank_;
    std::ranges::sort(next_);
    return static_cast<std::size_t>(std::unique(next_.begin(), next_.end()) - next_.begin());
  }

  static void number(const std::vector<Colour>& colours, std::vector<int>& kind, std::vector<int>& first,
                     std::vector<int>& size) {
    std::unordered_map<Colour, int> seen;
    for (std::size_t i = 0; i < colours.size(); ++i) {
      const auto [known, is_new] = seen.try_emplace(colours[i], static_cast<int>(first.size()));
      if (is_new) {
        first.push_back(static_cast<int>(i));
        size.push_back(0);
      }
      kind.push_back(known->second);
      ++size[static_cast<std::size_t>(known->second)];
    }
  }

  Kinds kinds() {
    Kinds found;
    number(of_rank_, found.of_rank, found.first, found.size);
    number(of_host_, found.of_host, found.first_host, found.hosts);
    for (std::size_t k = 0; k < found.first.size(); ++k) {
      const int rank = found.first[k];
      std::vector<Kinds::Partner> partners(steps_[static_cast<std::size_t>(rank)]);
      for (const StepMessage& m : of(rank)) {
        partners[m.step] = {static_cast<std::uint32_t>(found.of_rank[static_cast<std::size_t>(m.peer)]), m.peer_step};
      }
      found.partners.push_back(std::move(partners));
    }
    for (const std::uint32_t steps : steps_) found.steps += steps;
    return found;
  }

  const Network& network_;
  const bool shares_ = network_.rate(Tier::Memory).bytes_per_s > 0 || !network_.nic_for_each_rank();
  std::vector<Colour> of_rank_, next_;
  std::vector<Colour> of_host_;
  std::vector<StepMessage> messages_;  // rank by rank
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> steps_;
};

}  // namespace

std::optional<Kinds> find_kinds(const std::function<const Program&(int)>& program, const CollectiveDesc& desc,
                                const Network& network, std::size_t most) {
  Refinement refinement(network);
  for (int rank = 0; rank < network.ranks(); ++rank) refinement.add(rank, program(rank), desc);
  return refinement.find(most);
}

}  // namespace sinew
