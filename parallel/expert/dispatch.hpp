#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// Carries tokens to their experts and back, for one decision of a router. The forward and the backward pass use the
/// same Dispatch. Both directions are linear, and each is the transpose of the other. So the backward pass of
/// dispatch() is combine(), and that of combine() is dispatch().
///
///     dispatch(x, rows)         rows: one for each token that comes to an expert of this rank, expert by expert
///     ... rows of `out` = gate of the row * expert(row) ...
///     combine(rows, out)        out: for each token of this rank, the sum over its experts; 0 if it has none
///
/// Both can be done in chunks, so that rows of some experts travel while other experts compute. Call start(x) first.
/// For each chunk call receive(), compute, and call give_back(). At the end call collect(out).
/// Shape:    x, out [tokens, width]; rows [rows(), width]. The rows of this rank's expert e are from offsets()[e] to
///           offsets()[e + 1], by rank and token. A token has a row for each of its experts.
/// Thread:   the World's. Only one passage of a dispatcher at a time. A passage ends with receive() of the last chunk,
///           or with collect().
/// Lifetime: ends before the dispatcher that made it.
/// Errors:   as all_to_all_v. Collective over the ranks of the dispatcher, in the same order on all ranks.
/// Source:   handles of two directions: DeepEP; chunks: Hwang et al., Tutel, arXiv 2206.03382.
template <class T>
class Dispatch {
 public:
  Dispatch() = default;
  Dispatch(const Dispatch&) = delete;
  Dispatch& operator=(const Dispatch&) = delete;
  virtual ~Dispatch() = default;

  std::int64_t rows() const noexcept { return offsets_.back(); }
  /// For each expert of this rank, its first row. The last entry is rows().
  const std::vector<std::int64_t>& offsets() const noexcept { return offsets_; }
  /// The gate of each row.
  const std::vector<T>& gates() const noexcept { return gates_; }
  /// The experts of each chunk.
  const std::vector<Rows>& chunks() const noexcept { return chunks_; }
  /// Rows of a chunk.
  Rows rows_of_chunk(std::size_t chunk) const {
    return {offsets_[static_cast<std::size_t>(chunks_[chunk].first)],
            offsets_[static_cast<std::size_t>(chunks_[chunk].last)]};
  }

  void dispatch(const T* x, T* rows) {
    start(x);
    for (std::size_t c = 0; c < chunks_.size(); ++c) receive(c, rows);
  }
  void combine(const T* rows, T* out) {
    for (std::size_t c = 0; c < chunks_.size(); ++c) give_back(c, rows);
    collect(out);
  }
  /// Brings one number of each row back to its token's rank, to the place of the row's gate. Dropped assignments get 0.
  /// Shape: of_rows [rows()]; to [tokens, top_k].
  virtual void return_gates(const T* of_rows, T* to) = 0;

  /// Begins to send the tokens. x may be overwritten when start() returns.
  virtual void start(const T* x) = 0;
  /// Call it for the chunks in their order. rows: all rows; those of the chunk are written.
  virtual void receive(std::size_t chunk, T* rows) = 0;
  /// Call it for the chunks in their order. rows: all rows; those of the chunk are read, and may be overwritten when
  /// give_back() returns.
  virtual void give_back(std::size_t chunk, const T* rows) = 0;
  virtual void collect(T* out) = 0;

 protected:
  std::vector<std::int64_t> offsets_{0};
  std::vector<T> gates_;
  std::vector<Rows> chunks_;
};

}  // namespace sinew::parallel
