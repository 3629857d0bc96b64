// What records and fingerprints add to an all_reduce of 8 bytes: the shared-memory offload is called without them and
// with them, in turns, by the same two processes. Then whole calls of Worlds that time none, that time theirs
// (SINEW_STATS), and that log them (SINEW_TRACE).
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/table.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <sinew/topology/format/json/json_object.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/shm.hpp>

#include "command_line.hpp"
#include "two_ranks.hpp"

namespace {

using namespace sinew;
using Steady = std::chrono::steady_clock;

constexpr std::uint64_t kCalls = 20'000;
constexpr int kBatches = 61;

/// Four places of a program in turn, with descriptions that the compiler does not know.
struct Calls {
  std::array<std::source_location, 4> places = {
      CallOptions{}.where,
      CallOptions{}.where,
      CallOptions{}.where,
      CallOptions{}.where,
  };
  std::array<CollectiveDesc, 4> descs;

  Calls() {
    for (CollectiveDesc& desc : descs) desc = {.collective = Collective::AllReduce, .dtype = DType::F64, .count = 1};
  }
};

/// The shared-memory offload, called as a communicator calls it, but for what is left out.
class Bare {
 public:
  explicit Bare(bench::Side& side)
      : side_(side),
        exchange_(side.exchange()),
        host_(exchange_, "bench", Deadline::after(std::chrono::seconds(30))),
        fabric_(shm::module().open({side.rank(), 2, 0, host_, {}})),
        page_(make_page()),
        ring_(page_.get(), side.rank()) {
    group_.rank = side.rank();
    group_.world_ranks = {0, 1};
    offload_ = fabric_->make_offload({group_, exchange_, encode(shm::Facts{})});
  }

  /// Nanoseconds a call.
  template <bool Recorded>
  double batch() {
    std::array<double, 1> data{};
    const Reducer reducer = reducer_for(ReduceOp::Sum, DType::F64);
    const ManyReducer many = many_reducer_for(ReduceOp::Sum, DType::F64);
    const ConstBuffer in{reinterpret_cast<const std::byte*>(data.data()), sizeof data};
    const Buffer out{reinterpret_cast<std::byte*>(data.data()), sizeof data};
    side_.meet();
    const auto begin = Steady::now();
    for (std::uint64_t i = 0; i < kCalls; ++i) {
      const CollectiveDesc& desc = calls_.descs[i % 4];
      Fingerprint fingerprint = 1;
      if constexpr (Recorded) {
        fingerprint = fingerprint_of(desc, extent_of(desc));
        history_ = mix(history_, fingerprint);
        ++sequence_;
        done_.record = ring_.enter(
            {.communicator = group_.identity, .fingerprint = fingerprint, .history = history_, .sequence = sequence_},
            calls_.places[i % 4]);
      }
      done_.fired = false;
      offload_->launch({.desc = desc,
                        .in = in,
                        .out = out,
                        .fingerprint = fingerprint,
                        .history = history_,
                        .reducer = reducer,
                        .many = many},
                       done_);
      while (!done_.fired) {
        if (offload_->progress() == 0) cpu_relax();
      }
    }
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(kCalls);
  }

 private:
  struct Fired : Completion {
    bool fired = false;
    OpenRecord record{};
    Fired()
        : Completion([](Completion& c) noexcept {
            auto& self = static_cast<Fired&>(c);
            self.record.complete(self.status.code());  // nothing where there is no record
            self.fired = true;
          }) {}
  };
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  static std::unique_ptr<std::byte, Free> make_page() {
    const std::size_t bytes = (RecordRing::bytes() + kFalseSharing) / kFalseSharing * kFalseSharing;
    auto* page = static_cast<std::byte*>(std::aligned_alloc(kFalseSharing, bytes));
    std::fill_n(page, bytes, std::byte(0));
    return std::unique_ptr<std::byte, Free>(page);
  }

  bench::Side& side_;
  Exchange exchange_;
  HostPeers host_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<CollectiveOffload> offload_;
  Group group_;
  std::unique_ptr<std::byte, Free> page_;
  RecordRing ring_;
  Calls calls_;
  Fired done_;
  std::uint64_t history_ = 0;
  std::uint32_t sequence_ = 0;
};

/// Whole calls.
class Whole {
 public:
  Whole(bench::Side& side, bool times, const std::string& trace_dir)
      : side_(side), world_(World::create(side.exchange(), options(times, trace_dir))) {}

  double batch() {
    std::array<double, 1> data{};
    side_.meet();
    const auto begin = Steady::now();
    for (std::uint64_t i = 0; i < kCalls; ++i) world_.communicator().all_reduce(data).get();
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(kCalls);
  }

 private:
  static WorldOptions options(bool times, const std::string& trace_dir) {
    WorldOptions options;
    options.config.transports = {"shm"};
    options.config.tune = {"all_reduce:0-:shm@shm"};
    options.config.time_calls = times;
    options.config.trace_dir = trace_dir;
    return options;
  }

  bench::Side& side_;
  World world_;
};

/// Differences of batches that follow each other.
double between(const std::vector<double>& with, const std::vector<double>& without) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < with.size(); ++i) differences.push_back(with[i] - without[i]);
  return bench::median(differences);
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command(
      "Shows what records and fingerprints add to an all_reduce of 8 bytes, and what timing and logging do.");
  std::string json;
  command.option("--json", json, "file for one line of JSON");
  command.parse(argc, argv);

  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("sinew-records-{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::vector<double> off, on, plain, timed, logged;
  bench::in_two_processes([&](bench::Side& side) {
    Bare bare(side);
    for (int b = -2; b < kBatches; ++b) {
      const double without = bare.batch<false>(), with = bare.batch<true>();
      if (b < 0) continue;
      off.push_back(without);
      on.push_back(with);
    }
    Whole untimed(side, false, ""), with_times(side, true, ""), with_log(side, false, folder);
    for (int b = -2; b < kBatches; ++b) {
      const std::array<double, 3> ns = {untimed.batch(), with_times.batch(), with_log.batch()};
      if (b < 0) continue;
      plain.push_back(ns[0]);
      timed.push_back(ns[1]);
      logged.push_back(ns[2]);
    }
  });
  std::filesystem::remove_all(folder);
  Table table({{.name = "all_reduce of 8 bytes over shared memory, 2 ranks"}, {.name = "ns", .align = Align::Right}});
  const auto line = [&](const char* what, double ns) { table.add({what, fmt::format("{:.1f}", ns)}); };
  line("the offload, without records and fingerprints", bench::median(off));
  line("with", bench::median(on));
  line("difference", between(on, off));
  line("a whole call", bench::median(plain));
  line("SINEW_STATS adds", between(timed, plain));
  line("SINEW_TRACE adds", between(logged, plain));
  fmt::print("{}", table.text());
  if (!json.empty())
    std::ofstream(json) << json_object({{"off", bench::median(off), 2},
                                        {"on", bench::median(on), 2},
                                        {"adds", between(on, off), 2},
                                        {"whole", bench::median(plain), 2},
                                        {"stats", between(timed, plain), 2},
                                        {"trace", between(logged, plain), 2}})
                        << '\n';
}
