// Random calls on all ranks, checked, for as long as asked; then what they have left behind. `./run soak` starts it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/collectives/world.hpp>

#include "footprint.hpp"
#include "mix.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostGrowth = 1 << 20;
constexpr double kSettled = 1;  // minutes in which what is made once is made; of a shorter run growth is not judged
constexpr std::uint64_t kStepsBetweenLooks = 64;
constexpr int kGenerationsMore = 3;

struct Options {
  double minutes = 1;
  std::uint64_t seed = 1;
  int hosts = 1;
};

/// Ranks of an equal part each believe that they are on a host of their own.
void pretend_hosts(int hosts) {
  const char* rank = std::getenv("RANK");
  const char* ranks = std::getenv("WORLD_SIZE");
  if (hosts < 2 || rank == nullptr || ranks == nullptr) return;
  const int host = std::atoi(rank) * hosts / std::max(std::atoi(ranks), 1);
  ::setenv("SINEW_HOST_ID", ("soak-" + std::to_string(host)).c_str(), 1);
}

double minutes_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count() / 60;
}

int soak(sinew::soak::Mix& mix, const Options& options) {
  const auto begin = Clock::now();
  const double settled = std::min(kSettled, options.minutes / 4);
  std::optional<sinew::soak::Footprint> before;
  int said = 0;
  while (mix.all_go_on(minutes_since(begin) < options.minutes)) {
    for (std::uint64_t i = 0; i < kStepsBetweenLooks; ++i) mix.step();
    const bool is_settled = !mix.all_go_on(minutes_since(begin) < settled);
    if (!before && is_settled) {
      before = mix.next_generation();
    }
    if (mix.rank() == 0 && minutes_since(begin) >= said + 1)
      fmt::print(stderr, "{} min: {} calls, {} wrong\n", ++said, mix.calls(), mix.wrong());
  }
  sinew::soak::Footprint after = mix.next_generation();
  const sinew::soak::Footprint first = before.value_or(after);
  const std::int64_t growth = mix.largest(after.resident_bytes - first.resident_bytes);
  std::int64_t descriptors = mix.largest(after.descriptors - first.descriptors);
  // Every later generation still has a leaked descriptor. It does not have that of a connection that only ended late.
  for (int more = 0; descriptors > 0 && more < kGenerationsMore; ++more) {
    if (after.descriptors > first.descriptors)
      fmt::print(stderr, "rank {}: descriptors: {}\n", mix.rank(), sinew::soak::changes(first, after));
    after = mix.next_generation();
    descriptors = std::min(descriptors, mix.largest(after.descriptors - first.descriptors));
  }
  const std::int64_t mappings = mix.largest(after.mappings - first.mappings);
  const std::int64_t wrong = mix.largest(static_cast<std::int64_t>(mix.wrong()));
  const bool is_judged = settled == kSettled;
  const bool ok = wrong == 0 && descriptors <= 0 && (!is_judged || growth < kMostGrowth);
  if (mix.rank() == 0)
    fmt::print("{}\n", nlohmann::json{{"ranks", mix.size()},
                                      {"hosts", options.hosts},
                                      {"minutes", minutes_since(begin)},
                                      {"seed", options.seed},
                                      {"steps", mix.steps()},
                                      {"calls", mix.calls()},
                                      {"bytes", mix.bytes()},
                                      {"wrong", wrong},
                                      {"resident_growth_bytes", growth},
                                      {"growth_judged", is_judged},
                                      {"descriptors_more", descriptors},
                                      {"mappings_more", mappings},
                                      {"ok", ok}}
                           .dump());
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("random calls, checked; a line of JSON at the end. Start it with sinew-run; 0: all right, nothing grew");
  Options options;
  app.add_option("--minutes", options.minutes, "how long")->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "that all calls come from");
  app.add_option("--hosts", options.hosts, "that ranks believe to be on")->check(CLI::Range(1, 64));
  CLI11_PARSE(app, argc, argv);

  pretend_hosts(options.hosts);
  std::optional<sinew::soak::Mix> mix;
  try {
    mix.emplace(sinew::World::from_environment(), options.seed);
    return soak(*mix, options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "rank {}, step {} of seed {}, {}: {}\n", mix ? mix->rank() : -1, mix ? mix->steps() : 0,
               options.seed, mix ? mix->doing() : "start", e.what());
    return 1;
  }
}
