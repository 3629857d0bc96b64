#include "sparse.hpp"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "operation.hpp"
#include "tensors.hpp"
#include "work.hpp"

namespace sinew::torch_backend {
namespace {

/// What a rank's tensor looks like: dtype, number of sparse dimensions, number of entries, and its sizes.
at::Tensor shape_of(const at::Tensor& t, std::int64_t longest) {
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(t.scalar_type()), t.sparse_dim(), t.dim(), t._nnz()};
  const auto sizes = t.sizes();
  shape.insert(shape.end(), sizes.begin(), sizes.begin() + std::min<std::int64_t>(t.dim(), longest));
  shape.resize(static_cast<std::size_t>(4 + longest));
  return at::tensor(shape, at::kLong);
}
constexpr std::int64_t kEntries = 3;
constexpr std::int64_t kMostDimensions = 16;

class SparseSum {
 public:
  SparseSum(Group& group, std::chrono::milliseconds timeout) : group_(group), timeout_(timeout) {}

  at::Tensor of(const at::Tensor& input) {
    if (input.dim() > kMostDimensions)
      reject("allreduce", c10::str("a sparse tensor of ", input.dim(), " dimensions, expected at most 16"));
    const at::Tensor mine = input.coalesce();
    const std::vector<std::int64_t> entries = gather_shapes(mine);
    const std::vector<at::Tensor> indices = gather(mine.indices().t().contiguous(), entries);
    const std::vector<at::Tensor> values = gather(mine.values().contiguous(), entries);
    at::Tensor sum;
    for (std::size_t r = 0; r < entries.size(); ++r) {
      const at::Tensor part = at::sparse_coo_tensor(indices[r].t(), values[r], mine.sizes(), mine.options());
      sum = r == 0 ? part : sum + part;
    }
    return sum.coalesce();
  }

 private:
  /// The number of entries of each rank.
  std::vector<std::int64_t> gather_shapes(const at::Tensor& mine) {
    const at::Tensor shape = shape_of(mine, kMostDimensions);
    const std::vector<at::Tensor> all =
        gather(shape.unsqueeze(0), std::vector<std::int64_t>(static_cast<std::size_t>(group_.size()), 1));
    std::vector<std::int64_t> entries;
    for (std::size_t r = 0; r < all.size(); ++r) {
      at::Tensor other = all[r].squeeze(0).clone();
      entries.push_back(other[kEntries].item<std::int64_t>());
      other[kEntries] = shape[kEntries];
      if (!other.equal(shape))
        reject("allreduce", c10::str("Sparse dimensions do not match: rank ", r,
                                     " has another shape or dtype than rank ", group_.rank()));
    }
    return entries;
  }

  /// Each rank's rows, of which it has as many as `rows` says.
  std::vector<at::Tensor> gather(const at::Tensor& mine, const std::vector<std::int64_t>& rows) {
    const Element element = moved_element(mine.scalar_type());
    std::int64_t row_elements = 1;
    for (std::int64_t d = 1; d < mine.dim(); ++d) row_elements *= mine.size(d);
    std::vector<std::int64_t> sizes = mine.sizes().vec();
    std::vector<std::uint64_t> counts;
    sizes[0] = 0;
    for (const std::int64_t n : rows) {
      counts.push_back(static_cast<std::uint64_t>(n * row_elements) * element.each);
      sizes[0] += n;
    }
    const at::Tensor all = at::empty(sizes, mine.options());
    Submission s{operations::kAllReduceSparse, timeout_, false};
    const ConstBuffer in = s.buffers.read(mine);
    const Buffer out = s.buffers.write(all);
    group_.submit(std::move(s), {}, [&](Communicator& c, const CallOptions& options) {
      return c.all_gather_v(in, out, element.dtype, Parts{counts, {}}, options);
    });
    return all.split_with_sizes(rows, 0);
  }

  Group& group_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> all_reduce_sparse(Group& group, at::Tensor& tensor, std::chrono::milliseconds timeout) {
  const at::AutoDispatchBelowAutograd guard;
  tensor.copy_(SparseSum(group, timeout).of(tensor));
  Submission s{operations::kAllReduceSparse, timeout, false};
  s.outputs = std::vector{tensor};
  s.sequence = group.sequence();
  return c10::make_intrusive<SinewWork>(std::move(s));
}

}  // namespace sinew::torch_backend
