#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/reshard/element_classes.hpp>
#include <sinew/parallel/reshard/flows.hpp>
#include <sinew/parallel/reshard/plan.hpp>
#include <sinew/parallel/reshard/rounds.hpp>

namespace sinew::parallel {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  if (bytes < 10'000'000'000) return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

}  // namespace

DType travelling_dtype(DType held, DType wanted) {
  if (held == wanted) return held;
  if (is_integer(held) || is_integer(wanted))
    throw Error(
        Code::InvalidArgument,
        fmt::format("reshard: {} cannot be converted to {}: expected the same dtype, or two dtypes of floating point",
                    name_of(held), name_of(wanted)));
  return size_of(held) < size_of(wanted) ? held : wanted;
}

ReshardPlan plan_reshard(const std::vector<ReshardFacts>& of_ranks, std::size_t bytes_in_flight) {
  constexpr std::size_t kLeastInFlight = 4096;  // not a page: four elements of the largest dtype in each message
  if (bytes_in_flight < kLeastInFlight)
    throw Error(Code::InvalidArgument,
                fmt::format("reshard: {} bytes in flight, expected at least {}", bytes_in_flight, kLeastInFlight));
  ReshardPlan plan;
  plan.items = items_of(of_ranks);
  const std::vector<ElementClass> classes = classes_of(of_ranks, plan.items);
  const std::vector<Flow> flows = flows_of(of_ranks, classes, plan.copies);
  fill_rounds(plan, flows, of_ranks.size(), bytes_in_flight);
  return plan;
}

std::vector<ReshardTraffic> ReshardPlan::traffic() const {
  std::vector<ReshardTraffic> of_ranks(copies.size());
  for (const ReshardMessage& m : messages) {
    ReshardTraffic &from = of_ranks[at(m.from)], &to = of_ranks[at(m.to)];
    (m.across_hosts ? from.sent_across_hosts : from.sent_within_host) += m.bytes;
    (m.across_hosts ? to.received_across_hosts : to.received_within_host) += m.bytes;
  }
  return of_ranks;
}

std::string ReshardPlan::explain() const {
  std::uint64_t across = 0, within = 0, passed = 0, copied = 0;
  for (const ReshardMessage& m : messages) {
    (m.across_hosts ? across : within) += m.bytes;
    if (m.passed_on) passed += m.bytes;
  }
  for (const std::vector<ReshardSegment>& of_rank : copies) {
    for (const ReshardSegment& s : of_rank) copied += s.bytes();
  }
  std::string text = fmt::format(
      "{} items, {} messages in {} rounds, at most {} in flight on a rank\n"
      "across hosts {}; within hosts {}, of which {} are passed on; copied by the ranks that hold them {}\n",
      items.size(), messages.size(), rounds, bytes_text(most_in_flight), bytes_text(across), bytes_text(within),
      bytes_text(passed), bytes_text(copied));
  const std::vector<ReshardTraffic> of_ranks = traffic();
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    const ReshardTraffic& t = of_ranks[r];
    text += fmt::format("rank {}: sends {} across hosts and {} within its host, receives {} and {}\n", r,
                        bytes_text(t.sent_across_hosts), bytes_text(t.sent_within_host),
                        bytes_text(t.received_across_hosts), bytes_text(t.received_within_host));
  }
  return text;
}

}  // namespace sinew::parallel
