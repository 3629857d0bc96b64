#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <sinew/parallel/tensor/linear_shape.hpp>

#include "../parts.hpp"

namespace gpt {

/// What this rank has of a model, for so many sequences at once.
struct BlockShape {
  Shape whole;
  Part part;
  int sequences = 0;

  /// Positions that this rank has of a sequence.
  std::int64_t tokens() const { return part.positions(whole).tokens(part.context_rank); }
  std::int64_t rows() const { return sequences * tokens(); }
  /// Between layers.
  std::int64_t own_rows() const { return part.rows(rows()).count(); }
  /// Of what a linear layer takes for its sums: those gathered, or the most that are on their way at once.
  std::int64_t partial_rows() const;
  /// A linear layer of the whole model.
  sinew::parallel::LinearShape linear(std::string name, std::int64_t inputs, std::int64_t outputs) const {
    const std::int64_t leaves = std::min(sinew::parallel::leaves_of(inputs), sinew::parallel::leaves_of(outputs));
    return {std::move(name),
            rows(),
            inputs,
            outputs,
            {},
            part.sequence_parallel,
            {},
            part.decomposed,
            part.invariant ? leaves : 0};
  }
};

/// Room for what passes use and do not keep.
template <class T>
struct BlockScratch {
  std::span<T> rows{};               ///< [own rows, width]
  std::span<T> wide{};               ///< [rows, the widest row inside a layer]
  std::span<T> dropped{};            ///< [own rows, width], where there is dropout
  std::span<T> gathered{}, other{};  ///< [rows, width] or more, where rows are cut between layers
};

}  // namespace gpt
