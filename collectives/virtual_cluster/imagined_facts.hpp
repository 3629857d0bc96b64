#pragma once

#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/collectives/virtual_cluster/imagined_world.hpp>

namespace sinew {

/// A World on an imagined cluster has these options: its one transport, whatever the environment names.
/// Errors: Error{InvalidArgument} where the World has another number of ranks, or the caller wants other transports.
void require_imagined(const ImaginedWorld& imagined, int ranks, Config& config);

/// What a rank there says of itself, in place of what is true of its thread.
void imagine_place(const ImaginedWorld& imagined, int rank, LocalFacts& mine);

/// The rates of its cores or accelerators, which nobody measures.
void imagine_rates(const ImaginedWorld& imagined, Facts& facts);

}  // namespace sinew
