#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/parallel/placement/tensor.hpp>

// What each rank must hold of a tensor, by lists of indices and by combining values one by one: nothing of it is what
// parallel/placement does.
namespace sinew::parallel::test {

using Bytes = std::vector<std::byte>;

/// Where a rank is along each axis, and how many there are; by strides, the first axis fastest.
int index_along(const std::vector<Axis>& axes, const std::string& axis, int rank);
int size_along(const std::vector<Axis>& axes, const std::string& axis);

/// The elements of the whole tensor, row-major, that the rank holds, in the order of its buffer.
std::vector<std::size_t> elements_of(const TensorSpec& spec, const std::vector<Axis>& axes, int rank);

/// What the tensor has at an element: a small whole number, other than 0, that no neighbour has.
double value_at(std::size_t element);

/// What the rank holds: the values, or for Partials parts of them that `op` makes into the values; other parts for
/// another seed. Exact in every order, in bf16, too.
Bytes data_of(const TensorSpec& spec, const std::vector<Axis>& axes, int rank, unsigned seed);

/// What does not hold of the data that all ranks have of a tensor: the first element whose value, combined over the
/// ranks of Partials as this rank's neighbours have it, is wrong. Empty: all is right.
std::string wrong_in(const TensorSpec& spec, const std::vector<Axis>& axes, int rank,
                     const std::vector<Bytes>& of_all_ranks);

double number_at(const Bytes& data, DType dtype, std::size_t place);

}  // namespace sinew::parallel::test
