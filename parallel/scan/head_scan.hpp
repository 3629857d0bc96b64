#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// The sizes of a scan by heads. Heads of one group share b and c. A rank may have only some heads of its first and of
/// its last group.
struct HeadScanSizes {
  std::int64_t sequences = 1, heads = 1, head_width = 1, states = 1;
  std::int64_t groups = 1;
  std::int64_t heads_each = 1;    ///< heads of a whole group
  std::int64_t heads_before = 0;  ///< heads of the first group that another rank has

  std::int64_t width() const noexcept { return heads * head_width; }
  /// Elements of b or c of a token.
  std::int64_t group_states() const noexcept { return groups * states; }
  /// Elements of the state of one head.
  std::int64_t head_state() const noexcept { return head_width * states; }
  /// Elements of the states of all sequences: [sequences, heads, head_width, states].
  std::int64_t state() const noexcept { return sequences * heads * head_state(); }
  friend bool operator==(const HeadScanSizes&, const HeadScanSizes&) = default;
};

/// The inputs of a scan by heads.
/// Shape: x [sequences, tokens, heads, head_width]; dt [sequences, tokens, heads]; b, c [sequences, tokens, groups,
///        states]; a, skip [heads].
template <class T>
struct HeadScanInputs {
  const T *x = nullptr, *dt = nullptr, *b = nullptr, *c = nullptr;
  const T *a = nullptr, *skip = nullptr;
  /// Elements of x, b and c from one token to the next, if they lie side by side in one array. 0: each has its own.
  std::int64_t stride = 0;
};

/// The gradient of each input, shaped like it, with the same stride. Gradients of tokens are written. Gradients of the
/// parameters a and skip are added to.
template <class T>
struct HeadScanGradients {
  T *x = nullptr, *dt = nullptr, *b = nullptr, *c = nullptr;
  T *a = nullptr, *skip = nullptr;
};

/// The state space of Mamba-2 on this rank alone. For each token t, head h, element p of a head and state n, where the
/// group g has the head:
///     s_t[h, p, n] = exp(dt_t[h] * a[h]) * s_{t-1}[h, p, n] + dt_t[h] * b_t[g, n] * x_t[h, p]
///     y_t[h, p]    = sum over n of c_t[g, n] * s_t[h, p, n] + skip[h] * x_t[h, p]
/// Tokens are computed by chunks. Within a chunk, y is a product of x with a triangular matrix of all pairs of tokens.
/// From chunk to chunk only the states go on. The length of a chunk changes results in their last digits only.
/// A call computes one run of tokens, the same run of every sequence. Pointers are to the first token of a whole
/// sequence, not of the run.
/// Shape:  y and dy [sequences, tokens, heads, head_width]. before, after and their gradients: [sequences, heads,
///         head_width, states]. before and dafter null: zeros. after and dbefore null: they are not wanted.
/// Thread: one at a time. Lifetime: ends before blas.
/// Errors: a value that is not a number reaches all tokens of its chunk.
/// Cost:   for each token and head, products of 2 (chunk * head_width + 2 head_width * states) operations forward, and
///         about three times as many backward. Each group of heads adds one product of 2 chunk * states. There are
///         chunk / 2 exponentials for each token and head. The room has 5 chunk^2 elements, and about 6 rows of a head
///         for each token of a chunk. Backward, it has the states of one group before each chunk of a run.
/// Source: Dao & Gu, Transformers are SSMs, arXiv 2405.21060, section 6.
template <class T>
class SINEW_API HeadScan {
 public:
  static constexpr std::int64_t kChunk = 64;

  /// tokens: the number of tokens of each sequence in memory; runs are ranges of these. chunk: the most tokens of a
  /// chunk.
  /// Errors: InvalidArgument for sizes below 1, for a negative number of tokens, and for heads that are not those of
  ///         the groups.
  HeadScan(Blas& blas, const HeadScanSizes& sizes, std::int64_t tokens, std::int64_t chunk = kChunk);

  void forward(const HeadScanInputs<T>& in, const Rows& run, const T* before, T* y, T* after);
  void backward(const HeadScanInputs<T>& in, const Rows& run, const T* before, const T* dy, const T* dafter,
                const HeadScanGradients<T>& to, T* dbefore);

  /// Computes what a run does to a state that enters it: exp(a * dt_sum) times that state, plus `after`, the state that
  /// it leaves when it begins with zero.
  /// Shape: dt_sum [sequences, heads].
  void summary(const HeadScanInputs<T>& in, const Rows& run, T* dt_sum, T* after);
  /// The same for gradients, which enter a run after its last token: exp(a * dt_sum) times the gradient, plus
  /// `dbefore`, which comes from dy.
  void gradient_summary(const HeadScanInputs<T>& in, const Rows& run, const T* dy, T* dt_sum, T* dbefore);

  /// Elements that are held between calls.
  static std::int64_t room_for(const HeadScanSizes& sizes, std::int64_t tokens, std::int64_t chunk = kChunk) noexcept;
  std::size_t held_bytes() const noexcept { return room_.size() * sizeof(T); }

 private:
  /// The arrays of the room, of one group or one head in a chunk.
  struct Room {
    T* products;                                      // [chunk, chunk]: c b^T of a group
    T* decays;                                        // likewise: those between the tokens of all pairs
    T* weights;                                       // likewise: decays * products
    T* pairs;                                         // likewise: dy x^T; forward, weights * dt
    T* shared;                                        // likewise: the gradient of products
    T *scaled, *from_behind, *from_before, *inside;   // [chunk, head_width or states]
    T *dt, *logs, *through, *after, *slopes, *diffs;  // [chunk]
    T* starts;                                        // states before each chunk of the heads of a group
    T* now;                                           // states or their gradients of these heads
  };
  static Room divide(T* room, const HeadScanSizes& sizes, std::int64_t tokens, std::int64_t chunk,
                     std::int64_t* elements);

  std::int64_t x_row(const HeadScanInputs<T>& in) const noexcept { return in.stride > 0 ? in.stride : sizes_.width(); }
  std::int64_t group_row(const HeadScanInputs<T>& in) const noexcept {
    return in.stride > 0 ? in.stride : sizes_.group_states();
  }
  Rows heads_of(std::int64_t group) const noexcept;
  std::int64_t group_of(std::int64_t head) const noexcept { return (sizes_.heads_before + head) / sizes_.heads_each; }
  /// f(tokens of a chunk), in order or from the last to the first.
  template <class F>
  void for_each_chunk(std::int64_t sequence, const Rows& run, const F& f) const;
  /// The first argument of f is the number of the chunk.
  template <class F>
  void for_each_chunk_back(std::int64_t sequence, const Rows& run, const F& f) const;
  /// `of` null: zeros. A null `to` is not written.
  void load(const T* of, std::int64_t sequence, const Rows& heads, T* to) const;
  void store(const T* from, std::int64_t sequence, const Rows& heads, T* to) const;
  void sum_dt(const HeadScanInputs<T>& in, const Rows& run, T* to) const;

  /// c b^T of a group.
  void find_products(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t group);
  /// The decays of one head from the chunk's beginning through each token, and after each token to the chunk's end.
  void find_decays(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head);
  /// The decays between all pairs of tokens, also multiplied by the products.
  void find_weights(const Rows& chunk);
  void emit(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, const T* state, T* y);
  /// The state of one head past a chunk; the gradient of its state back before the chunk.
  void advance(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, T* state);
  void retreat(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, const T* dy, T* slope);
  /// The gradients of a chunk's tokens for one head. Those of b and c that come from pairs of tokens are added up in
  /// `shared` for all heads of a group.
  void step_back(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, const T* dy, const T* state,
                 const T* slope, const HeadScanGradients<T>& to);
  /// The gradients of dt and a, by those of the logarithms of the decays of each token. through_chunk: what the state
  /// adds that goes through the whole chunk. dys: the gradients of the outputs of this head and chunk.
  void decays_back(const HeadScanInputs<T>& in, const Rows& chunk, std::int64_t head, T through_chunk, const T* dys,
                   const HeadScanGradients<T>& to);

  Blas* blas_;
  HeadScanSizes sizes_;
  std::int64_t tokens_, chunk_;
  std::vector<T> room_;
  Room at_;
};

extern template class HeadScan<float>;
extern template class HeadScan<double>;

}  // namespace sinew::parallel
