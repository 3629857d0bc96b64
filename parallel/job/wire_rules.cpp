#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <sinew/parallel/job/stage_sharding.hpp>
#include <sinew/parallel/job/wire_rules.hpp>
#include <sinew/parallel/mesh/layout_arithmetic.hpp>
#include <sinew/parallel/mesh/layout_rules.hpp>

namespace sinew::parallel {
namespace {

/// Returns why something cannot be sent quantised. `what`: its name, such as "weights int8".
std::string reason_against(const JobRequest& asked, const std::string& what) {
  const JobConfig& c = asked.config;
  if (c.zero != 3) return fmt::format("{} with zero {}, which keeps whole parameters", what, c.zero);
  if (c.determinism == Determinism::LayoutInvariant)
    return fmt::format("{} and layout_invariant: what is rounded depends on the layout", what);
  return {};
}

Finding judge_weights(const JobRequest& asked) {
  if (asked.config.weights == WeightWire::Plain) return "";
  return reason_against(asked, fmt::format("weights {}", name_of(asked.config.weights)));
}

Finding judge_int4(const JobRequest& asked) {
  if (!asked.config.int4_gradients) return "";
  if (asked.config.codec != Codec::None)
    return fmt::format("gradients int4 and codec {}, of which one can be", name_of(asked.config.codec));
  return reason_against(asked, "gradients int4");
}

/// The ranks over which parameters are sharded. 0: unknown, because another rule is broken.
int shard_ranks(const JobRequest& asked) {
  const JobConfig& c = asked.config;
  if (!violations(asked.ranks, c.layout).empty() || c.replicas < 1) return 0;
  const int data = data_ranks(asked.ranks, c);
  return data % c.replicas == 0 ? data / c.replicas : 0;
}

Finding judge_near(const JobRequest& asked) {
  const int near = asked.config.near_ranks;
  if (near < 1) return fmt::format("{} near ranks", near);
  if (near == 1) return "";
  if (asked.config.zero != 3)
    return fmt::format("{} near ranks with zero {}, which keeps whole parameters", near, asked.config.zero);
  if (follows_schedule(asked.config, *asked.engine))
    return fmt::format("{} near ranks, and the schedule of the pipeline decides when parameters are freed", near);
  const int shards = shard_ranks(asked);
  if (shards == 0) return std::nullopt;
  return shards % near == 0 ? "" : fmt::format("{} near ranks, of {} that shard", near, shards);
}

JobChanges to_zero3(const JobRequest& asked) { return to_each(asked, &JobConfig::zero, "zero", {3}); }
JobChanges other_level(const JobRequest& asked) {
  return {changed(asked, &JobConfig::determinism, Determinism::Reproducible, "determinism reproducible")};
}
JobChanges near_changes(const JobRequest& asked) {
  return to_each(asked, &JobConfig::near_ranks, "near_ranks", divisors_of(std::max(shard_ranks(asked), 1)));
}

}  // namespace

std::vector<JobRule> wire_rules() {
  const auto plain = set_to(&JobConfig::weights, WeightWire::Plain, "weights plain");
  const auto sums = set_to(&JobConfig::int4_gradients, false, "gradients plain");
  const auto uncoded = set_to(&JobConfig::codec, Codec::None, "codec none");
  return {{"weights", judge_weights, any_of(plain, to_zero3, other_level)},
          {"int4_gradients", judge_int4, any_of(sums, uncoded, to_zero3, other_level)},
          {"near_ranks", judge_near, any_of(near_changes, to_zero3)}};
}

bool breaks_wire_rules(const JobRequest& asked) {
  return judge_weights(asked) != "" || judge_int4(asked) != "" || judge_near(asked) != "";
}

}  // namespace sinew::parallel
