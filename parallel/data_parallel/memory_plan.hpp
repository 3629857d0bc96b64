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
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/data_parallel/held_memory.hpp>
#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sinew::parallel {

/// What else decides how much is held.
struct MemoryUse {
  std::variant<std::monostate, SgdOptions, AdamOptions> optimizer{};  ///< none: its state is not counted
  bool accumulates = false;  ///< no_sync() is used: until gradients are summed each rank holds all of them
  /// Of the rank along the sharded axis. Shards are equal, but what the optimizer updates of the last one may be less,
  /// as it ends in padding. {}: the rank that holds most.
  std::optional<int> index{};
};

/// Bytes that a rank will have held at most, by purpose: HeldBytes::most, known before the first step.
/// `Underway` is what the step takes at its start and keeps, and the most that any timing of exchanges can make it
/// need; all others are held as they are. A step needs less of it where an exchange is over sooner or later than that.
struct MemoryPlan {
  std::array<std::size_t, kPurposes> bytes{};
  std::vector<std::size_t> underway;  ///< the pieces of `Underway`
  std::size_t gathered = 0;           ///< of `Underway`: the most of gathered parameters, at any time

  std::size_t of(Purpose p) const noexcept { return bytes[static_cast<std::size_t>(p)]; }
  SINEW_API std::size_t total() const noexcept;
};

/// From the graph that a step will run; allocates nothing of all that.
/// shape: of the mesh, or of one that there is not yet: 64 ranks need none of them.
/// Errors: as plan_step; InvalidArgument for axes that the shape has not, an index that is no rank's.
/// Cost:   tens of milliseconds for billions of parameters.
SINEW_API MemoryPlan plan_memory(const std::vector<DataParameter>& parameters, const DataRow& row,
                                 const DataParallelOptions& options, const Factorisation& shape,
                                 const MemoryUse& use = {});

/// What a rank takes under a row of data parallelism.
using NamedMemory = std::pair<std::string_view, MemoryPlan>;

/// A line for each: KiB, MiB or GiB by purpose, and their sum.
SINEW_API std::string memory_table(std::span<const NamedMemory> plans);

/// Goes on where no more parameters are gathered than planned.
/// Errors: std::logic_error: the step is not the planned one.
SINEW_API void require_planned(std::size_t gathered, const MemoryPlan& plan);

}  // namespace sinew::parallel
