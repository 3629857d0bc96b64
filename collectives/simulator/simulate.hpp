#pragma once

#include <cstdint>
#include <optional>

#include <sinew/collectives/hierarchy/levels.hpp>
#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/schedule/segmentation.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/simulator/forecast.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

struct SimulationOptions {
  std::optional<Segmentation>
      segmentation{};       ///< nullopt: kSegmentation, with the programs' scratch and the limit for the links
  bool every_rank = false;  ///< true: simulates every rank, even those that behave alike
  bool time_line = false;   ///< true: fills Forecast::time_line
  bool link_bytes = false;  ///< true: fills Forecast::link_bytes
  std::uint64_t exact_steps = 2'000'000;    ///< so many steps of programs rather than an approximation
  std::uint64_t most_steps = 20'000'000;    ///< of programs, which must be held; eight chunks count as a step
  int most_composed = 5000;                 ///< programs of a composition: to build one takes a look at all ranks
  std::uint64_t most_executed = 4'000'000;  ///< steps times segments; of more segments only some are simulated
  int fewest_for_kinds = 4096;              ///< ranks, not a page: with fewer all are simulated (kinds.hpp)
};

/// Runs the programs that a recipe builds on a clock, segment by segment and as deep as the executor does.
/// Model:  a message starts when both ends have posted it; after the latency of its route its bytes flow, with a
///         max-min fair share of every link they pass; then both ends are done. A rank copies and reduces one step at a
///         time, beside its messages. So what a rank sends to several at a time goes to all of them at once, each a
///         part of its rate: down a tree the first child waits for all of it.
/// Exact:  ranks that do the same in the same order, seen from where each is, move in lock step: one of them is
///         simulated, its peers standing for themselves, on links loaded by all alike. That they do is looked at for
///         three ranks of a kind; were others not alike, messages would stay without a partner, which is an error.
///         Chunks that are an element longer than others count as equal. If no shift makes ranks alike, kinds
///         are looked for in the programs of all ranks (kinds.hpp), with exactly equal chunks.
///         Between hosts Selector has twice as many pieces under way, for what is not modelled: a piece is asked for,
///         and its end is told.
/// Not:    Forecast::exact is false and its account says why. Ranks that do the same in another order: in a hierarchy
///         each host begins its ring with another chunk, so that all but the first wait a little longer for it. In a
///         large fat tree some of those alike cross the spine where others, in the same step, do not: all take the mean
///         latency, and the rate of those that cross, on leaf links loaded by the mean. Of long calls the last segments
///         are not simulated, but expected to follow at the pace of those before.
/// Errors: Error{InvalidArgument} where counts are local, a message has no schedule, or there is no symmetry and more
///         steps than options.most_steps.
SINEW_API Forecast simulate(const Recipe& recipe, const CollectiveDesc& desc, const Network& network,
                            const SimulationOptions& options = {});

/// What a plan of Communicator::plan would take there: the programs that its ranks run, in its segments and as many of
/// them at a time. Rank i of the plan's group is rank i of the network; options.cutting has no say.
/// Errors: as above, and Error{InvalidArgument} where the network has another number of ranks, or the plan no programs:
///         an offload does the whole call, device memory goes through the host, or it is a message.
SINEW_API Forecast simulate(const Plan& plan, const Network& network, const SimulationOptions& options = {});

/// Its ranks by hosts, for compositions.
SINEW_API Levels levels_of(const Network& network);

}  // namespace sinew
