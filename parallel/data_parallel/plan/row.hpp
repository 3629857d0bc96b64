#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// The two ways in which the ranks of an axis hold a tensor between two uses: each rank holds all of it, or each rank
/// holds its own part.
enum class Held : std::uint8_t { Whole, Sharded };

/// The share of parameters, gradients and optimizer state that the ranks along one axis hold.
struct DataAxis {
  std::string axis{};
  Held parameter = Held::Whole, gradient = Held::Whole, optimizer = Held::Whole;
  friend bool operator==(const DataAxis&, const DataAxis&) = default;
};

/// A kind of data parallelism, as a row of a table that says what is held where. Everything else follows from the row.
/// Gradients are summed over all axes. Where the optimizer's state is sharded, each rank needs only the sum of its own
/// part: the sum is then a reduce_scatter.
/// The table shows bytes per rank for P parameters in bf16, with Adam's state in f32 (master values and two moments),
/// and N ranks along the sharded axis. Buffers for parameters and gradients in flight come on top.
///
///     row    parameter  gradient  optimizer  bytes
///     ddp    whole      whole     whole      16P
///     zero1  whole      whole     sharded    4P + 12P/N
///     zero2  whole      sharded   sharded    2P + 14P/N
///     zero3  sharded    sharded   sharded    16P/N
///     hsdp   zero3 along the first of two axes, ddp along the second
///
/// Source: Rajbhandari et al., ZeRO (arXiv 1910.02054); one table as in Megatron-FSDP.
struct DataRow {
  std::string name{};
  std::vector<DataAxis> axes{};
};

/// "ddp", "zero1", "zero2", "zero3", "hsdp".
SINEW_API std::span<const std::string_view> data_row_names() noexcept;
/// The row of that name, along `axes` of the mesh. hsdp takes two axes, the sharded one first. All other rows take one.
/// Errors: InvalidArgument that lists the rows that there are, or the axes that the row expects.
SINEW_API DataRow data_row(std::string_view name, const std::vector<std::string>& axes);

/// The axis along which the optimizer's state is sharded. If no axis shards it, the result has no name, and everything
/// is whole.
SINEW_API DataAxis sharded_axis(const DataRow& row);

/// Every rule that a row breaks, in words. Sharded parameters need sharded gradients, and sharded gradients need a
/// sharded optimizer. At most one axis shards. No axis is named twice. There is at least one axis.
SINEW_API std::vector<std::string> violations_of(const DataRow& row);

}  // namespace sinew::parallel
