#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// Tokens on their way to their experts and back, as one router decision has them go: the handle that forward and
/// backward pass share. Both are linear, and one the transpose of the other, so the backward pass of dispatch() is
/// combine(), and that of combine() dispatch().
///
///     dispatch(x, rows)         rows: of the tokens that come to this rank's experts, expert by expert
///     ... rows of `out` = gate of the row * expert(row) ...
///     combine(rows, out)        out: of this rank's tokens, the sum over their experts; 0 of a token without any
///
/// In parts, so that rows of some experts travel while those of others are computed: start(x), then for each chunk
/// receive(), compute, give_back(), at the end collect(out).
/// Shape:    x, out [tokens, width]; rows [rows(), width], those of expert e of this rank from offsets()[e] to
///           offsets()[e + 1], by rank and token. A token is in it once for each of its experts.
/// Thread:   the World's. One passage of a dispatcher at a time: it ends with receive() of the last chunk or collect().
/// Lifetime: ends before the dispatcher that made it.
/// Errors:   as all_to_all_v. Collective over the ranks of the dispatcher, all in the same order.
/// Source:   handles of two directions: DeepEP; chunks: Hwang et al., Tutel, arXiv 2206.03382.
template <class T>
class Dispatch {
 public:
  Dispatch() = default;
  Dispatch(const Dispatch&) = delete;
  Dispatch& operator=(const Dispatch&) = delete;
  virtual ~Dispatch() = default;

  std::int64_t rows() const noexcept { return offsets_.back(); }
  /// By expert of this rank, and one more: the end.
  const std::vector<std::int64_t>& offsets() const noexcept { return offsets_; }
  /// Of each row.
  const std::vector<T>& gates() const noexcept { return gates_; }
  /// The rank's experts by chunk.
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
  /// Of each row a number, where the gates came from: of a dropped assignment 0.
  /// Shape: of_rows [rows()]; to [tokens, top_k].
  virtual void return_gates(const T* of_rows, T* to) = 0;

  /// x may be written over when it returns.
  virtual void start(const T* x) = 0;
  /// Chunks in their order. rows: the whole; those of the chunk are written.
  virtual void receive(std::size_t chunk, T* rows) = 0;
  /// Chunks in their order. rows: the whole; those of the chunk are read, and may be written over when it returns.
  virtual void give_back(std::size_t chunk, const T* rows) = 0;
  virtual void collect(T* out) = 0;

 protected:
  std::vector<std::int64_t> offsets_{0};
  std::vector<T> gates_;
  std::vector<Rows> chunks_;
};

}  // namespace sinew::parallel
