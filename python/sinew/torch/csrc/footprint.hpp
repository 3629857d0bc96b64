#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstddef>

namespace sinew::torch_backend {

/// The memory that one call reads and writes. sinew reads and writes in any order, so an output that shares memory with
/// another tensor of the call must be written to memory of its own first: see Buffers::write.
class Footprint {
 public:
  Footprint& write(const at::Tensor& tensor) { return add(tensor, true); }
  Footprint& write(at::TensorList tensors) { return add(tensors, true); }
  Footprint& read(const at::Tensor& tensor) { return add(tensor, false); }
  Footprint& read(at::TensorList tensors) { return add(tensors, false); }
  /// `part` is this rank's part of `all`, and sinew lets it lie at its place there: one of the two is read, the other
  /// is written. A part that lies elsewhere is added like all others.
  Footprint& read_part(const at::Tensor& part, const at::Tensor& all, int rank);
  Footprint& read_all(const at::Tensor& all, const at::Tensor& part, int rank);

  /// Whether a tensor that is written shares memory with another one. What lies between the elements of a tensor counts
  /// as its memory. Cost: n log n.
  bool overlaps();

 private:
  struct Range {
    const std::byte* first;
    const std::byte* end;
    bool written;
  };

  Footprint& add(const at::Tensor& tensor, bool written);
  Footprint& add(at::TensorList tensors, bool written);
  Footprint& add(Range range);

  c10::SmallVector<Range, 4> ranges_;
};

}  // namespace sinew::torch_backend
