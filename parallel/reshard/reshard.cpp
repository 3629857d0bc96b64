#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/mesh/agreement.hpp>
#include <sinew/parallel/reshard/execution.hpp>
#include <sinew/parallel/reshard/gathered_facts.hpp>
#include <sinew/parallel/reshard/reshard.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kReshardLabel = "reshard";

/// Checks what does not need the facts of other ranks, and that all ranks have the same options.
void require_valid_call(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
                        const ReshardOptions& options) {
  on_all_or_none(all, kReshardLabel, [&] {
    for (const CheckpointPart& part : held) require_valid(part);
    for (const CheckpointPart& part : wanted) require_valid(part);
    if (!options.hosts.empty() && std::ssize(options.hosts) != all->size())
      throw Error(Code::InvalidArgument,
                  fmt::format("the hosts of {} ranks, expected those of {}", options.hosts.size(), all->size()));
  });
  require_equal_on_all(all, "the options of reshard",
                       fmt::format("{} bytes in flight, keep_old {}, tag {}, hosts [{}]", options.bytes_in_flight,
                                   options.keep_old, options.tag, fmt::join(options.hosts, ", ")),
                       all.options(nullptr));
}

ReshardPlan plan_of(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
                    const ReshardOptions& options) {
  auto held_by_all = gather_parts(all, held, kReshardLabel), wanted_by_all = gather_parts(all, wanted, kReshardLabel);
  const std::vector<int> hosts = options.hosts.empty() ? gather_hosts(all, kReshardLabel) : options.hosts;
  std::vector<ReshardFacts> facts;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    facts.push_back({hosts[r], std::move(held_by_all[r]), std::move(wanted_by_all[r])});
  return plan_reshard(facts, options.bytes_in_flight);
}

}  // namespace

struct Resharder::State {
  std::optional<ReshardExecution> execution;
};

Resharder::Resharder(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
                     const ReshardOptions& options)
    : state_(std::make_unique<State>()) {
  require_valid_call(all, held, wanted, options);
  ReshardPlan plan = plan_of(all, held, wanted, options);
  // A rank may have too little memory.
  on_all_or_none(all, kReshardLabel, [&] {
    state_->execution.emplace(all, std::move(plan), held, wanted,
                              ReshardExecutionOptions{options.keep_old, options.tag, kReshardLabel});
  });
}
Resharder::Resharder(Resharder&&) noexcept = default;
Resharder& Resharder::operator=(Resharder&&) noexcept = default;
Resharder::~Resharder() = default;

void Resharder::run() { state_->execution->run(); }

const ReshardPlan& Resharder::plan() const noexcept { return state_->execution->plan(); }

std::size_t Resharder::memory_bytes() const noexcept { return state_->execution->memory_bytes(); }

void reshard(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
             const ReshardOptions& options) {
  Resharder(all, held, wanted, options).run();
}

}  // namespace sinew::parallel
