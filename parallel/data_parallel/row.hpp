#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// How the ranks of an axis hold something between two uses of it: all the whole, or each its own part of it.
enum class Held : std::uint8_t { Whole, Sharded };

/// One axis of a row: what its ranks hold of parameters, gradients and optimizer state.
struct DataAxis {
  std::string axis;
  Held parameter = Held::Whole, gradient = Held::Whole, optimizer = Held::Whole;
  friend bool operator==(const DataAxis&, const DataAxis&) = default;
};

/// A way of data parallelism: one table says what is where, everything else follows from it. Gradients are summed over
/// all axes; where the optimizer's state is sharded each rank needs the sum of its own part only (reduce_scatter).
/// Bytes per rank, of P parameters in bf16 with f32 state of Adam (master, two moments), N ranks along the sharded
/// axis, and of each row the buffers of what is under way:
///
///     row    parameter  gradient  optimizer  bytes
///     ddp    whole      whole     whole      16P
///     zero1  whole      whole     sharded    4P + 12P/N
///     zero2  whole      sharded   sharded    2P + 14P/N
///     zero3  sharded    sharded   sharded    16P/N
///     hsdp   zero3 along the axis that is named first, ddp along the second
///
/// Source: Rajbhandari et al., ZeRO (arXiv 1910.02054); one table as in Megatron-FSDP.
struct DataRow {
  std::string name;
  std::vector<DataAxis> axes;
};

/// "ddp", "zero1", "zero2", "zero3", "hsdp".
SINEW_API std::span<const std::string_view> data_row_names() noexcept;
/// axes: of the mesh; hsdp takes two, the sharded one first, the others one.
/// Errors: InvalidArgument naming the rows that there are, or the axes that the row expects.
SINEW_API DataRow data_row(std::string_view name, const std::vector<std::string>& axes);

/// The axis along which the optimizer's state is sharded; one without a name, of which all is whole, where none is.
SINEW_API DataAxis sharded_axis(const DataRow& row);

/// Every rule that a row breaks, in words: something sharded whose user holds the whole (parameters sharded ask for
/// sharded gradients, these for a sharded optimizer), two axes that shard, an axis named twice, none at all.
SINEW_API std::vector<std::string> violations_of(const DataRow& row);

}  // namespace sinew::parallel
