#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>
#include <sinew/parallel/data_parallel/plan/row.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/optim/update_rule/options.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// Further facts that decide how much memory is held.
struct MemoryUse {
  /// monostate: the optimizer's state is not counted
  std::variant<std::monostate, SgdOptions, AdamOptions> optimizer{};
  bool accumulates = false;  ///< no_sync() is used: each rank holds all gradients until they are summed
  /// The index of the rank along the sharded axis. Shards are equal, but the last one ends in padding, so its optimizer
  /// may have less to update. {}: the rank that holds most. It is 0 or {} if the row shards nothing, as ddp.
  std::optional<int> index{};
};

/// Bytes that a rank will have held at most, by purpose: HeldBytes::most, known before the first step.
/// `Underway` is the most that any timing of the exchanges can make a step need; the step reserves it at its start.
/// Other purposes are held exactly as planned.
struct MemoryPlan {
  std::array<std::size_t, kPurposes> bytes{};
  std::vector<std::size_t> underway;  ///< the pieces of `Underway`
  std::size_t gathered = 0;           ///< the most gathered parameters at any time, a part of `Underway`

  std::size_t of(Purpose p) const noexcept { return bytes[static_cast<std::size_t>(p)]; }
  SINEW_API std::size_t total() const noexcept;
};

/// Predicts the memory of a rank from the graph that a step will run. Allocates none of that memory.
/// shape: the shape of the mesh. The mesh need not exist, so one rank can plan for 64.
/// Errors: as plan_step; InvalidArgument for axes that the shape lacks, and for an index that is not a rank's.
/// Cost:   tens of milliseconds for billions of parameters.
SINEW_API MemoryPlan plan_memory(const std::vector<DataParameter>& parameters, const DataRow& row,
                                 const DataParallelOptions& options, const Factorisation& shape,
                                 const MemoryUse& use = {});

/// The memory of a rank under the row of that name.
using NamedMemory = std::pair<std::string_view, MemoryPlan>;

/// One line for each plan: memory by purpose, and the sum, in KiB, MiB or GiB.
SINEW_API std::string memory_table(std::span<const NamedMemory> plans);

/// Checks that no more parameters are gathered than planned.
/// Errors: std::logic_error if there are more, because the step then differs from the planned one.
SINEW_API void require_planned(std::size_t gathered, const MemoryPlan& plan);

}  // namespace sinew::parallel
