#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {

/// Separate buffers, one per rank, seen as the parts of one buffer that reaches from the lowest address of them to the
/// highest end.
struct BufferList {
  std::vector<std::uint64_t> counts;         ///< elements
  std::vector<std::uint64_t> displacements;  ///< elements from `whole` on
  Buffer whole;                              ///< what lies between the parts is not touched

  Parts parts() const noexcept { return {counts, displacements}; }
};

/// Errors: InvalidArgument where there is not one buffer per rank, where one is no memory of the host or no whole
///         number of elements, or where the distance of two is no multiple of an element.
BufferList list_of(std::string_view call, std::string_view name, std::span<const Buffer> buffers, DType dtype,
                   int ranks);

/// Errors: InvalidArgument where a buffer that is written shares a byte with another one.
/// Cost:   sorts the buffers.
void require_apart(std::string_view call, std::span<const Buffer> read, std::span<const Buffer> written);

/// A buffer that is only read, as one of a list.
Buffer readable(ConstBuffer b) noexcept;
std::vector<Buffer> readable(std::span<const ConstBuffer> buffers);

/// This rank's own part is the single buffer.
bool is_in_place(ConstBuffer single, std::span<const Buffer> list, int rank) noexcept;

/// Errors: InvalidArgument where the single buffer has another length than this rank's part of the list, or is no
///         memory of the host.
void require_own(std::string_view call, std::string_view name, ConstBuffer single, std::string_view list_name,
                 const BufferList& list, DType dtype, int rank);

}  // namespace sinew
