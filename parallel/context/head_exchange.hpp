#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/counts.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// The positions of a sequence that each member of a group has, and the heads that each member gets.
struct HeadExchangeShape {
  std::vector<std::vector<Rows>> pieces{};  ///< positions by member, as SequenceCut
  std::vector<Rows> heads{};                ///< by member; several may have the same head
  std::int64_t all_heads = 0;
  std::int64_t head_width = 1;
  std::int64_t sequences = 1;
};

/// Exchanges "my tokens, all heads" for "all tokens, my heads", and back. It is the exchange of Ulysses.
/// Shape:    by tokens [sequences, own tokens, all_heads * head_width], with any stride between tokens. By heads
///           [sequences, tokens of all members in ascending order, own heads * head_width].
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   InvalidArgument for pieces or heads of another number of members. Otherwise as all_to_all_v.
/// Cost:     an all_to_all_v, and memory for the sent and the received elements. A group of one rank copies instead.
/// Source:   Jacobs et al., DeepSpeed Ulysses, arXiv 2309.14509.
template <class T>
class SINEW_API HeadExchange {
 public:
  HeadExchange(CallGroup group, HeadExchangeShape shape, const ComputeDevice& device = {});

  void to_heads(const T* by_tokens, std::int64_t stride, T* by_heads);
  /// The transpose of to_heads(). If several members have a head, their values are summed.
  void to_tokens(const T* by_heads, T* by_tokens, std::int64_t stride);

  std::int64_t elements_by_heads() const noexcept { return elements_by_heads(shape_, me_); }
  static std::int64_t elements_by_heads(const HeadExchangeShape& shape, std::size_t member) noexcept;
  /// Elements of both buffers together.
  static std::int64_t room_for(const HeadExchangeShape& shape, std::size_t member) noexcept;
  std::size_t held_bytes() const noexcept { return (tokens_side_.size() + heads_side_.size()) * sizeof(T); }
  /// Bytes sent to other ranks so far.
  std::size_t sent_bytes() const noexcept { return sent_; }

 private:
  /// Tokens of a member that follow each other: their numbers among its own, and among all.
  struct Run {
    std::int64_t own, all, count;
  };

  std::int64_t own_tokens(std::size_t member) const noexcept;
  /// Calls f(Run of the tokens of all sequences, number of its first token among the member's) for each run.
  template <class F>
  void for_each_run(std::size_t member, const F& f) const;
  void send(const PlacedArray<T>& from, const Counts& counts, const PlacedArray<T>& to, const Counts& coming);

  CallGroup group_;
  HeadExchangeShape shape_;
  std::size_t me_;
  std::vector<std::vector<Run>> runs_;         // by member
  std::int64_t all_tokens_ = 0;                // of a sequence
  Counts by_heads_counts_, by_tokens_counts_;  // elements for each member: with its heads, with its tokens
  ComputeDevice device_;
  std::shared_ptr<const LayerMath<T>> math_;
  PlacedArray<T> tokens_side_, heads_side_;  // packed data of each side
  std::size_t sent_ = 0;
};

extern template class HeadExchange<float>;
extern template class HeadExchange<double>;

}  // namespace sinew::parallel
