#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <list>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/reshard/reshard.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

#include "random_layouts.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::fork_ranks;
using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;
using test::random_facts;
using ::testing::HasSubstr;

/// Writes a small whole number, which every dtype has, as an element of this dtype.
void write_number(std::byte* to, DType dtype, int number) {
  const auto put = [&](auto value) { std::memcpy(to, &value, sizeof(value)); };
  const auto as_float = static_cast<float>(number);
  switch (dtype) {
    case DType::F16: return put(to_half(as_float));
    case DType::BF16: return put(to_bfloat16(as_float));
    case DType::F8E4M3: return put(to_float8_e4m3(as_float));
    case DType::F8E5M2: return put(to_float8_e5m2(as_float));
    case DType::F32: return put(as_float);
    case DType::F64: return put(static_cast<double>(number));
    case DType::I64: return put(static_cast<std::int64_t>(number));
    default: return put(static_cast<std::uint8_t>(number));
  }
}

/// The number in element `e` of an item. F8E5M2 has two bits of mantissa, so it has all of these.
int number_of(const CheckpointItem& item, std::int64_t e) {
  constexpr std::array kNumbers{0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16};
  const auto place =
      static_cast<std::size_t>(e + 5 * (e / 12)) + item.name.size() + static_cast<std::size_t>(item.name.back());
  return kNumbers[place % kNumbers.size()];
}

/// Parts with memory of their own.
class Tensors {
 public:
  Tensors(const std::vector<PartDescription>& described, bool filled) {
    for (const PartDescription& part : described) {
      auto& memory = memory_.emplace_back(index(part.extent.elements()) * size_of(part.item.dtype), kOld);
      all.push_back({part.item, part.extent, {memory.data(), memory.size()}});
      if (!filled) continue;
      for (std::int64_t e = 0; e < part.extent.elements(); ++e) write(all.back(), e, memory.data());
    }
  }

  /// The number of elements that are not those of their item.
  std::size_t wrong() const {
    std::size_t wrong = 0;
    for (const CheckpointPart& part : all) {
      std::vector<std::byte> expected(part.buffer.bytes);
      for (std::int64_t e = 0; e < part.extent.elements(); ++e) {
        write(part, e, expected.data());
        const std::size_t at = index(e) * size_of(part.item.dtype);
        wrong += std::memcmp(part.buffer.data + at, expected.data() + at, size_of(part.item.dtype)) == 0 ? 0 : 1;
      }
    }
    return wrong;
  }
  /// All buffers are as they were at first.
  bool is_old() const {
    return std::ranges::all_of(
        memory_, [](const auto& memory) { return std::ranges::all_of(memory, [](std::byte b) { return b == kOld; }); });
  }

  std::vector<CheckpointPart> all;

 private:
  static constexpr std::byte kOld{0xA5};

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  static void write(const CheckpointPart& part, std::int64_t e, std::byte* memory) {
    const std::int64_t number = number_in_whole(part.item.shape, part.extent.box, part.extent.first + e);
    write_number(memory + index(e) * size_of(part.item.dtype), part.item.dtype, number_of(part.item, number));
  }

  std::list<std::vector<std::byte>> memory_;
};

std::vector<int> hosts_in(const std::vector<ReshardFacts>& facts) {
  std::vector<int> hosts;
  for (const ReshardFacts& of : facts) hosts.push_back(of.host);
  return hosts;
}

TEST(Reshard, FillsWantedParts_BetweenRandomLayouts) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::vector<ReshardFacts> facts = random_facts(1000 + seed);
    on_threads(static_cast<int>(facts.size()), only("inproc"), [&](World& world) {
      const ReshardFacts& mine = facts[static_cast<std::size_t>(world.rank())];
      const Tensors held(mine.held, true);
      const Tensors wanted(mine.wanted, false);
      const ReshardOptions options{.bytes_in_flight = seed % 3 == 0 ? 4096U : 1U << 16,
                                   .keep_old = seed % 2 == 0,
                                   .hosts = seed % 4 < 2 ? hosts_in(facts) : std::vector<int>{}};
      Resharder resharder(world.communicator(), held.all, wanted.all, options);
      std::size_t most = options.bytes_in_flight;
      for (const CheckpointPart& part : wanted.all) most += options.keep_old ? part.buffer.bytes : 0;
      require(resharder.memory_bytes() <= most, "the memory for messages and new values");
      resharder.run();
      require(wanted.wrong() == 0, "other elements than are held, seed " + std::to_string(seed));
    });
  }
}

TEST(Reshard, FillsWantedParts_BetweenProcesses) {
  int jobs = 0;
  for (unsigned seed = 0; jobs < 6; ++seed) {
    const std::vector<ReshardFacts> facts = random_facts(seed);
    if (facts.size() < 3) continue;
    in_processes(static_cast<int>(facts.size()), only(++jobs % 2 == 0 ? "shm" : "tcp"), [&](World& world) {
      const ReshardFacts& mine = facts[static_cast<std::size_t>(world.rank())];
      const Tensors held(mine.held, true);
      const Tensors wanted(mine.wanted, false);
      reshard(world.communicator(), held.all, wanted.all, {.bytes_in_flight = 4096});
      require(wanted.wrong() == 0, "other elements than are held");
    });
  }
}

CheckpointItem matrix(DType dtype) { return {"matrix", dtype, {96, 64}}; }

/// Rank r of `ranks` has rows of the matrix.
Extent rows_of(int r, int ranks) { return box_of({{96 * r / ranks, 0}, {96 * (r + 1) / ranks, 64}}); }
Extent columns_of(int r, int ranks) { return box_of({{0, 64 * r / ranks}, {96, 64 * (r + 1) / ranks}}); }

TEST(Resharder, MovesNewValues_EachTimeItRuns) {
  on_threads(3, only("inproc"), [](World& world) {
    const Tensors held({{matrix(DType::F32), rows_of(world.rank(), 3)}}, true);
    const Tensors wanted({{matrix(DType::BF16), columns_of(world.rank(), 3)}}, false);
    Resharder resharder(world.communicator(), held.all, wanted.all);
    resharder.run();
    require(wanted.wrong() == 0, "the first run");
    const Buffer memory = held.all[0].buffer;
    for (std::size_t at = 0; at < memory.bytes; at += sizeof(float)) {
      const auto new_value = static_cast<float>(at % 29) + 1.0F / 512;  // bf16 has no such number
      std::memcpy(memory.data + at, &new_value, sizeof(float));
    }
    resharder.run();
    const Tensors again({{matrix(DType::BF16), columns_of(world.rank(), 3)}}, false);
    for (std::int64_t e = 0; e < again.all[0].extent.elements(); ++e) {
      const std::int64_t number = number_in_whole({{96, 64}}, again.all[0].extent.box, e);
      const BFloat16 expected = to_bfloat16(static_cast<float>(number % (32 * 64) * 4 % 29) + 1.0F / 512);
      require(std::memcmp(wanted.all[0].buffer.data + 2 * e, &expected, 2) == 0, "rounded to nearest even");
    }
    require(resharder.memory_bytes() >= wanted.all[0].buffer.bytes, "memory for the old values");
  });
}

/// The trainer's and the inference's weights are the same memory: rows become columns in place.
TEST(Reshard, MayShareBuffers_WhereOldValuesAreKept) {
  on_threads(2, only("inproc"), [](World& world) {
    const Tensors held({{matrix(DType::I64), rows_of(world.rank(), 2)}}, true);
    Tensors wanted({{matrix(DType::I64), columns_of(world.rank(), 2)}}, false);
    wanted.all[0].buffer = held.all[0].buffer;
    reshard(world.communicator(), held.all, wanted.all, {.bytes_in_flight = 8192});
    require(wanted.wrong() == 0, "columns");
  });
}

TEST(Reshard, KeepsAllBits_OfEqualDtypes) {
  on_threads(2, only("inproc"), [](World& world) {
    std::vector<std::uint32_t> bits(1 << 12);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint32_t>(i * 0x9E3779B9U);
    bits[5] = 0x7F800001;  // a signalling NaN
    std::vector<std::uint32_t> to(bits.size());
    const CheckpointItem item{"bits", DType::F32, {1 << 12}};
    const auto part = [&](std::vector<std::uint32_t>& of) {
      return CheckpointPart{item, whole_of(item), {reinterpret_cast<std::byte*>(of.data()), 4 * of.size()}};
    };
    const std::vector<CheckpointPart> held{part(bits)}, wanted{part(to)}, none;
    reshard(world.communicator(), world.rank() == 0 ? held : none, world.rank() == 1 ? wanted : none);
    require(world.rank() == 0 || to == bits, "the bits");
  });
}

TEST(ReshardOnAVirtualCluster, SendsAsPlanned_BetweenHosts) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  options.count_sent = true;
  const CheckpointItem item{"w", DType::F32, {1000, 300}};
  run_virtual_ranks(make_virtual_world(virtual_cluster_from("xeon-2s:2+1+3")), options, [&](World& world) {
    // Ranks 0 and 1 of the first host and rank 2 of the second have a copy each; the third host wants three copies.
    const std::vector<PartDescription> whole{{item, whole_of(item)}};
    const Tensors held(world.rank() < 3 ? whole : std::vector<PartDescription>{}, true);
    const Tensors wanted(world.rank() >= 3 ? whole : std::vector<PartDescription>{}, false);
    std::vector<int> hosts;
    for (const RankSpot& spot : world.cluster().ranks) hosts.push_back(spot.host);
    Resharder resharder(world.communicator(), held.all, wanted.all, {.bytes_in_flight = 1 << 18, .hosts = hosts});
    const std::vector<std::uint64_t> before = world.sent_bytes();
    resharder.run();
    const std::vector<std::uint64_t> after = world.sent_bytes();
    require(wanted.wrong() == 0, "other elements than are held");
    std::uint64_t across = 0;
    for (std::size_t r = 0; r < after.size(); ++r) {
      if (hosts[r] != hosts[static_cast<std::size_t>(world.rank())]) across += after[r] - before[r];
    }
    constexpr std::uint64_t kWhole = 1'200'000, kOther = 4096;  // the barrier, and headers
    const std::uint64_t planned = resharder.plan().traffic()[static_cast<std::size_t>(world.rank())].sent_across_hosts;
    require(across >= planned && across < planned + kOther, "the bytes of the plan");
    require(world.rank() >= 3 || (planned > kWhole / 3 - 8192 && planned < kWhole / 3 + 8192), "a third each");
  });
}

TEST(Reshard, NamesAFault_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    Communicator& all = world.communicator();
    const Tensors held({{matrix(DType::F32), rows_of(world.rank(), 3)}}, true);
    Tensors wanted({{matrix(DType::F32), rows_of(world.rank(), 3)}}, false);
    const auto fault = [&](const ReshardOptions& options) {
      return complaint([&] { reshard(all, held.all, wanted.all, options); });
    };
    require_part(fault({.bytes_in_flight = 100}), "100 bytes in flight, expected at least 4096");
    require_part(fault({.hosts = {0, 1}}), "the hosts of 2 ranks, expected those of 3");
    require_part(fault({.keep_old = world.rank() == 1}), "rank 1");
    require_part(fault({.hosts = {0, 1, world.rank()}}), "the options of reshard");
    if (world.rank() == 2) wanted.all[0].buffer.bytes -= 4;
    require_part(fault({}), "rank 2 on ");
    require(wanted.is_old(), "nothing is written");
  });
}

/// A float buffer that ends at a page that cannot be read: whoever packs its end dies.
class Deadly {
 public:
  Deadly() {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    bytes_ = kFloats * sizeof(float) + page;
    map_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    last_ = static_cast<std::byte*>(map_) + kFloats * sizeof(float) - page;
    page_ = page;
  }
  Deadly(const Deadly&) = delete;
  Deadly& operator=(const Deadly&) = delete;
  ~Deadly() { ::munmap(map_, bytes_); }

  void arm() const { ::mprotect(last_, page_, PROT_NONE); }
  Buffer memory() const { return {static_cast<std::byte*>(map_), kFloats * sizeof(float)}; }

  static constexpr std::size_t kFloats = std::size_t{1} << 18;

 private:
  void* map_ = nullptr;
  std::byte* last_ = nullptr;
  std::size_t bytes_ = 0, page_ = 0;
};

/// Rank 2 of 4 dies when it packs the last page of its part. Rank 0 wants what it holds and what rank 1 holds.
void meet_death(World& world, bool keep_old) {
  const CheckpointItem item{"w", DType::F32, {2 * static_cast<std::int64_t>(Deadly::kFloats)}};
  const CheckpointItem narrow{"w", DType::BF16, item.shape};
  const std::int64_t half = item.elements() / 2;
  const Deadly deadly;
  std::vector<CheckpointPart> held;
  if (world.rank() == 1) held = {{item, range_of(item, 0, half), deadly.memory()}};
  if (world.rank() == 2) held = {{item, range_of(item, half, 2 * half), deadly.memory()}};
  std::vector<PartDescription> described;
  if (world.rank() == 0) described = {{narrow, whole_of(narrow)}};
  const Tensors wanted(described, false);
  Resharder resharder(world.communicator(), held, wanted.all, {.bytes_in_flight = 1 << 16, .keep_old = keep_old});
  require(resharder.plan().rounds > 8, "there is a middle");
  if (world.rank() == 2) {
    std::signal(SIGSEGV, SIG_DFL);
    deadly.arm();
  }
  Error end(Code::Ok, "no error");
  try {
    resharder.run();
    world.communicator().barrier().get();
  } catch (const Error& e) {
    end = e;
  }
  require(end.code() == Code::PeerLost && end.rank() == 2, end.what());
  require_part(end.what(), "rank 2");
  if (world.rank() == 0) require(wanted.is_old() == keep_old, "the old values");
}

void expect_death(const char* transport, bool keep_old) {
  const std::vector<int> ends = fork_ranks(4, [&](const Exchange& exchange) {
    World world = World::create(exchange, only(transport));
    meet_death(world, keep_old);
  });
  for (std::size_t r = 0; r < ends.size(); ++r) {
    if (r == 2) {
      EXPECT_TRUE(WIFSIGNALED(ends[r]) || WEXITSTATUS(ends[r]) != 0) << ends[r];
    } else {
      EXPECT_TRUE(WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == 0) << "rank " << r << ": " << ends[r];
    }
  }
}

TEST(Reshard, KeepsOldValues_WhenARankDiesInTheMiddle) {
  for (const char* transport : {"shm", "tcp"}) expect_death(transport, true);
}

/// It shows that the rank above does die in the middle.
TEST(Reshard, LeavesAMixture_WhenARankDiesAndOldValuesAreNotKept) { expect_death("shm", false); }

}  // namespace
}  // namespace sinew::parallel
