#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sinew::parallel {

/// What a compute does to dimensions, each of which has a letter as its label.
///     ri,oi->ro      a linear layer of x [r, i] and weight [o, i]: labels that a result lacks are summed over
///     ro+ro->ro      the sum of operands, which may be Partial all together
///     ro,o->ro,r     two results
///     r(hd)->rhd     a dimension of two labels, the outer one first: columns as heads. Only the outer one can be cut
/// Along a label that `whole` does not name the compute treats each place alone, but for the sum: ranks may share it.
struct ComputeRule {
  std::string labels;
  std::string function;             ///< what the engine does beyond products and sums; empty: nothing
  std::string whole;                ///< labels that must not be cut: "o" of a norm over a row
  std::vector<std::size_t> linear;  ///< operands in each of which it is linear: one of them may be Partial
  std::vector<std::pair<char, std::int64_t>> extents;  ///< of labels that shapes alone do not tell
};

}  // namespace sinew::parallel
