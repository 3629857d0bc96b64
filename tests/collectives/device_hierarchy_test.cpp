// The programs of hierarchical calls on device memory, run by an interpreter that knows what each collective is.
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sinew/collectives/device_hierarchy/hosts_of_group.hpp>
#include <sinew/collectives/device_hierarchy/program.hpp>

namespace sinew::test {
namespace {

using Among = HierarchyStep::Among;
using Word = std::uint64_t;
using Words = std::vector<Word>;

HostsOfGroup group_on(const std::vector<int>& host_of) {
  Facts facts;
  for (const int host : host_of) facts.ranks.push_back({.host = host});
  std::vector<int> all(host_of.size());
  std::iota(all.begin(), all.end(), 0);
  return {facts, all};
}

struct Layout {
  std::vector<int> host_of;
  bool in_order;
};

const std::vector<Layout> kLayouts = {{{0, 0, 1, 1}, true},       {{0, 0, 0, 1, 1, 1}, true},
                                      {{2, 2, 0, 0, 1, 1}, true}, {{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, true},
                                      {{0, 1, 0, 1}, false},      {{0, 1, 2, 1, 0, 2}, false}};

/// The memory of one rank. `in` and `out` lie in one vector if the call is in place.
struct RankMemory {
  Words whole, other, scratch;
  Word* in = nullptr;
  Word* out = nullptr;
  HierarchyProgram program;
  std::vector<bool> has_ended;

  Word* at(const HierarchyMemory& m) {
    const std::size_t first = m.first / sizeof(Word);
    switch (m.of) {
      case HierarchyMemory::Of::In: return in + first;
      case HierarchyMemory::Of::Out: return out + first;
      case HierarchyMemory::Of::Scratch: return scratch.data() + first;
    }
    return nullptr;
  }
  /// The next step among these ranks that has not ended, or nullptr.
  const HierarchyStep* next(Among among) const {
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
      if (!has_ended[i] && program.steps[i].among == among) return &program.steps[i];
    }
    return nullptr;
  }
  bool is_ready(const HierarchyStep& s) const {
    for (const std::size_t n : s.needs) {
      if (!has_ended[n]) return false;
    }
    return true;
  }
  void end(const HierarchyStep& s) { has_ended[static_cast<std::size_t>(&s - program.steps.data())] = true; }
};

/// The result of a collective for each rank, from the inputs of all.
std::vector<Words> results_of(const CollectiveDesc& desc, const std::vector<Words>& in) {
  const std::size_t ranks = in.size();
  const std::size_t n = desc.collective == Collective::AllGatherV ? desc.counts.front() : desc.count;
  std::vector<Words> out(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t from = 0; from < ranks; ++from) {
      switch (desc.collective) {
        case Collective::AllReduce:
          out[r].resize(n);
          for (std::size_t i = 0; i < n; ++i) out[r][i] += in[from][i];
          break;
        case Collective::ReduceScatter:
          out[r].resize(n);
          for (std::size_t i = 0; i < n; ++i) out[r][i] += in[from][r * n + i];
          break;
        case Collective::AllGather:
        case Collective::AllGatherV: out[r].insert(out[r].end(), in[from].begin(), in[from].end()); break;
        case Collective::AllToAll:
          for (std::size_t i = 0; i < n; ++i) out[r].push_back(in[from][r * n + i]);
          break;
        default: out[r] = in[static_cast<std::size_t>(desc.root)];
      }
    }
  }
  return out;
}

/// Runs one step of a group: each rank reads before any rank writes.
void run_step(const std::vector<RankMemory*>& members, const std::vector<const HierarchyStep*>& steps) {
  const CollectiveDesc& desc = steps.front()->desc;
  std::vector<Words> in;
  for (std::size_t m = 0; m < members.size(); ++m) {
    ASSERT_EQ(steps[m]->desc.to_string(), desc.to_string());
    const Word* from = members[m]->at(steps[m]->in);
    in.emplace_back(from, from + steps[m]->in.bytes / sizeof(Word));
  }
  const std::vector<Words> out = results_of(desc, in);
  for (std::size_t m = 0; m < members.size(); ++m) {
    Word* to = members[m]->at(steps[m]->out);
    if (desc.collective == Collective::AllGatherV) {
      const std::size_t n = desc.counts.front();
      for (std::size_t h = 0; h < members.size(); ++h) {
        for (std::size_t i = 0; i < n; ++i) to[desc.displacements[h] + i] = out[m][h * n + i];
      }
    } else {
      ASSERT_EQ(out[m].size() * sizeof(Word), steps[m]->out.bytes) << desc.to_string();
      if (!out[m].empty()) std::memcpy(to, out[m].data(), steps[m]->out.bytes);
    }
    members[m]->end(*steps[m]);
  }
}

/// Runs all programs. Groups take turns in one order or the other, since nothing orders them but the steps' needs.
void run_all(std::vector<RankMemory>& ranks, const HostsOfGroup& hosts, bool rails_first) {
  std::vector<std::pair<Among, std::vector<int>>> groups;
  for (const auto& on : hosts.ranks_on) groups.emplace_back(Among::Host, on);
  for (int place = 0; place < hosts.ranks_per_host(); ++place) groups.emplace_back(Among::Rail, hosts.ranks_at(place));
  if (rails_first) std::ranges::reverse(groups);
  bool moved = true;
  while (moved) {
    moved = false;
    for (const auto& [among, numbers] : groups) {
      std::vector<RankMemory*> members;
      std::vector<const HierarchyStep*> steps;
      for (const int r : numbers) {
        RankMemory& rank = ranks[static_cast<std::size_t>(r)];
        const HierarchyStep* s = rank.next(among);
        if (s == nullptr || !rank.is_ready(*s)) continue;
        members.push_back(&rank);
        steps.push_back(s);
      }
      if (members.size() != numbers.size()) continue;
      ASSERT_NO_FATAL_FAILURE(run_step(members, steps));
      moved = true;
    }
  }
  for (const RankMemory& r : ranks) {
    ASSERT_EQ(r.next(Among::Host), nullptr) << "a step waits for ever";
    ASSERT_EQ(r.next(Among::Rail), nullptr) << "a step waits for ever";
  }
}

/// Lays out the memory of a rank and fills its input. Returns the input.
Words fill(RankMemory& rank, const CollectiveDesc& desc, std::size_t r, std::size_t ranks, bool in_place) {
  const Blocks blocks = blocks_of(desc.collective, ranks);
  const std::size_t in = blocks.in * desc.count;
  const std::size_t out = blocks.out * desc.count;
  rank.whole.assign(std::max(in, out), 0);
  rank.other.assign(in, 0);
  rank.in = rank.other.data();
  rank.out = rank.whole.data();
  if (in_place) {
    rank.in = rank.whole.data() + (desc.collective == Collective::AllGather ? r * desc.count : 0);
    if (desc.collective == Collective::ReduceScatter) rank.out = rank.whole.data() + r * desc.count;
  }
  if (desc.collective == Collective::Broadcast) rank.in = rank.out;
  for (std::size_t i = 0; i < in; ++i) rank.in[i] = 1'000'003 * (r + 1) + i;
  return {rank.in, rank.in + in};
}

void expect_right(const CollectiveDesc& desc, const Layout& layout, bool in_place, bool rails_first) {
  const HostsOfGroup hosts = group_on(layout.host_of);
  const std::size_t ranks = layout.host_of.size();
  std::vector<RankMemory> memory(ranks);
  std::vector<Words> inputs;
  for (std::size_t r = 0; r < ranks; ++r) {
    inputs.push_back(fill(memory[r], desc, r, ranks, in_place));
    memory[r].program = hierarchy_program(desc, hosts, static_cast<int>(r));
    memory[r].has_ended.assign(memory[r].program.steps.size(), false);
    memory[r].scratch.resize(memory[r].program.scratch_bytes / sizeof(Word));
  }
  ASSERT_NO_FATAL_FAILURE(run_all(memory, hosts, rails_first));
  const std::vector<Words> expected = results_of(desc, inputs);
  for (std::size_t r = 0; r < ranks; ++r)
    ASSERT_EQ(Words(memory[r].out, memory[r].out + expected[r].size()), expected[r]) << "rank " << r;
}

constexpr std::array kAll = {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                             Collective::AllToAll, Collective::Broadcast};

CollectiveDesc desc_of(Collective collective, std::uint64_t count, int root) {
  return {.collective = collective,
          .dtype = DType::U64,
          .place = {MemoryKind::Device, 0},
          .root = collective == Collective::Broadcast ? root : 0,
          .count = count};
}

TEST(DeviceHierarchy, GivesTheResultsOfEachCollective) {
  for (const Layout& layout : kLayouts) {
    const int last = static_cast<int>(layout.host_of.size()) - 1;
    for (const Collective c : kAll) {
      if (!layout.in_order && c != Collective::AllReduce && c != Collective::Broadcast) continue;
      for (const std::uint64_t count : {0, 1, 3, 1000, 5001}) {
        for (const int variant : {0, 1, 2, 3}) {
          const CollectiveDesc desc = desc_of(c, count, variant < 2 ? 1 : last);
          SCOPED_TRACE(
              fmt::format("{} on hosts {}, variant {}", desc.to_string(), fmt::join(layout.host_of, ","), variant));
          ASSERT_NO_FATAL_FAILURE(expect_right(desc, layout, variant % 2 == 1, variant >= 2));
        }
      }
    }
  }
}

/// While a piece is between the hosts, the next one is summed: its first step needs nothing of the piece before.
TEST(DeviceHierarchy, CutsLongCallsIntoPiecesThatOverlap) {
  const std::uint64_t piece = kRailPieceBytes / sizeof(Word);
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast}) {
    const CollectiveDesc desc = desc_of(c, 2 * 2 * piece + 7, 3);
    ASSERT_NO_FATAL_FAILURE(expect_right(desc, kLayouts.front(), false, false));
    ASSERT_NO_FATAL_FAILURE(expect_right(desc, kLayouts.front(), true, true));
  }
  const HierarchyProgram program =
      hierarchy_program(desc_of(Collective::AllReduce, 2 * 2 * piece, 0), group_on(kLayouts.front().host_of), 0);
  std::vector<std::string> order;
  for (const HierarchyStep& s : program.steps) {
    if (s.among == Among::Host) order.emplace_back(name_of(s.desc.collective));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"reduce_scatter", "reduce_scatter", "all_gather", "all_gather"}));
  for (const HierarchyStep& s : program.steps) {
    if (s.desc.collective == Collective::ReduceScatter) EXPECT_TRUE(s.needs.empty());
    if (s.among == Among::Rail) EXPECT_EQ(s.out.bytes, kRailPieceBytes);
  }
}

TEST(DeviceHierarchy, KnowsTheHostsOfAGroup) {
  const HostsOfGroup hosts = group_on({4, 7, 4, 7});
  EXPECT_EQ(hosts.ranks_on, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
  EXPECT_EQ(hosts.ranks_at(1), (std::vector<int>{2, 3}));
  EXPECT_TRUE(hosts.are_equal);
  EXPECT_FALSE(hosts.are_in_order);
  EXPECT_FALSE(group_on({0, 0, 1}).are_equal);
}

}  // namespace
}  // namespace sinew::test
