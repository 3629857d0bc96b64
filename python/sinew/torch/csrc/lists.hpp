#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>

#include "tensors.hpp"

namespace sinew::torch_backend {

/// A list of separate tensors, one for each rank. In CPU memory sinew takes the memory of each, without copies. On a
/// device it takes one piece of memory, from or to which torch copies the tensors.
template <class B>
struct List {
  c10::SmallVector<B, 8> each;
  B whole{};
  std::vector<std::uint64_t> bytes;  ///< of each tensor in `whole`; empty: `each` is used

  bool joined() const noexcept { return !bytes.empty(); }
  bool equal() const { return std::ranges::adjacent_find(bytes, std::ranges::not_equal_to()) == bytes.end(); }
  std::vector<std::uint64_t> counts(DType dtype) const {
    std::vector<std::uint64_t> elements(bytes);
    for (std::uint64_t& n : elements) n /= size_of(dtype);
    return elements;
  }
};
using ReadList = List<ConstBuffer>;
using WriteList = List<Buffer>;

ReadList read_list(Buffers& buffers, at::TensorList tensors);
/// `apart`: as in Buffers::write.
WriteList write_list(Buffers& buffers, at::TensorList tensors, bool apart);

namespace lists {

// The calls of Communicator with a list. Of gather and scatter the list is the root's; elsewhere it is empty.
Work all_gather(Communicator& c, ConstBuffer in, const WriteList& out, DType dtype, const CallOptions& options);
Work reduce_scatter(Communicator& c, const ReadList& in, Buffer out, const Reduction& how, const CallOptions& options);
Work gather(Communicator& c, ConstBuffer in, const WriteList& out, DType dtype, int root, const CallOptions& options);
Work scatter(Communicator& c, const ReadList& in, Buffer out, DType dtype, int root, const CallOptions& options);
Work all_to_all(Communicator& c, const ReadList& in, const WriteList& out, DType dtype, const CallOptions& options);

}  // namespace lists
}  // namespace sinew::torch_backend
