#pragma once

// Tensors that compute. The room holds a tensor with its part on this rank, the choice of placements for an operation,
// and the operations with their gradients. It may include placements, redistribution, the rules of `step_graph/placed`,
// the mesh, the kernels of `modules` and the room `common`.

#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/mesh/mesh.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// A tensor on a mesh. It owns the data that its placements put on this rank: contiguous, row-major, in host memory.
/// The placements are in one spelling (normal_form): axes of one rank and the offsets of even cuts are left out.
/// Every rank of the mesh makes the same tensors and calls the same operations, in the same order.
/// Thread:   the World's.
/// Lifetime: ends before the mesh. A copy copies the data.
/// Source:   PyTorch's DTensor.
class SINEW_API DistributedTensor {
 public:
  /// All elements are 0.
  /// Errors: InvalidArgument on all ranks, as require_valid, if the mesh has no group along an axis of the placements,
  ///         and if ranks ask for different tensors.
  /// Cost:   collective: two small all_reduces along each group of the mesh. They let an error reach all ranks.
  DistributedTensor(Mesh& mesh, TensorSpec spec, const CallOptions& = {});
  /// The tensor whose part on this rank is a copy of `local`.
  /// Errors: as above. InvalidArgument also, on all ranks, if `local` has another length than local_bytes.
  static DistributedTensor from_local(Mesh& mesh, TensorSpec spec, ConstBuffer local, const CallOptions& = {});
  /// The tensor with the elements of `whole`, which every rank has. Each rank copies its part. Along the axis of a
  /// Partial the first rank copies, and the others get the neutral element; of an average all ranks copy.
  /// Errors: as above. InvalidArgument also, on all ranks, if `whole` has another length than the whole tensor.
  static DistributedTensor distribute(Mesh& mesh, TensorSpec spec, ConstBuffer whole, const CallOptions& = {});

  const TensorSpec& spec() const noexcept { return spec_; }
  const Placements& placements() const noexcept { return spec_.placements; }
  Mesh& mesh() const noexcept { return *mesh_; }
  /// The part of the tensor that this rank has.
  Box box() const;
  Buffer local() noexcept { return {data_.data(), data_.size(), {}}; }
  ConstBuffer local() const noexcept { return {data_.data(), data_.size(), {}}; }
  /// The same elements as numbers of type T. A temporary tensor is refused, because its numbers would end with it.
  /// Errors: InvalidArgument if T is not the dtype.
  template <class T>
  std::span<T> values() & {
    require_dtype(kDTypeOf<T>);
    return {reinterpret_cast<T*>(data_.data()), data_.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> values() const& {
    require_dtype(kDTypeOf<T>);
    return {reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> values() && = delete;
  /// The same tensor under another name. Errors show the name.
  DistributedTensor named(std::string name) const;

  /// Room for a result. Nothing is sent or compared, so the spec must be valid and equal on all ranks.
  static DistributedTensor unchecked(Mesh& mesh, TensorSpec spec);

 private:
  DistributedTensor() = default;
  void require_dtype(DType asked) const;

  Mesh* mesh_ = nullptr;
  TensorSpec spec_;
  Bytes data_;
};

/// The tensor with other placements. It goes there by the sequence of collectives that sends the fewest bytes.
/// Errors: InvalidArgument on all ranks alike, as require_valid for `to`, and if the mesh has no group along an axis of
///         `to`. Otherwise as the collectives.
/// Cost:   collective. Nothing is sent to agree: `to` must be equal on all ranks.
SINEW_API DistributedTensor redistribute(const DistributedTensor& tensor, const Placements& to,
                                         const CallOptions& = {});

}  // namespace sinew::parallel
