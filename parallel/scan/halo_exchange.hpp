#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/counts.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>

namespace sinew::parallel {

/// Gets the last `reach` tokens before each piece of a rank, from whatever ranks have them, and sends their gradients
/// back. Pieces may be shorter than `reach`: tokens then come from further back.
/// Shape:    tokens [sequences, own tokens, channels] in the order of the rank's pieces; halo [pieces, sequences,
///           reach, channels], with zeros for places before a sequence.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   the constructor throws InvalidArgument for a cut of another number of ranks than the group has, for fewer
///           than one sequence or channel, and for a reach below 0. Otherwise as all_to_all_v.
/// Cost:     an all_to_all_v of these tokens each way. All ranks together send at most all their halos, whatever the
///           lengths.
template <class T>
class SINEW_API HaloExchange {
 public:
  HaloExchange(CallGroup group, std::int64_t sequences, std::int64_t channels, std::int64_t reach,
               const SequenceCut& cut);

  std::int64_t elements() const noexcept { return pieces_ * sequences_ * reach_ * channels_; }
  /// Elements that the object holds on that rank.
  static std::int64_t room_for(std::int64_t sequences, std::int64_t channels, std::int64_t reach,
                               const SequenceCut& cut, int rank);

  void forward(const T* tokens, T* halo);
  /// Adds to the gradients of the tokens.
  void backward(const T* dhalo, T* dtokens);

  /// Bytes that this rank has sent so far.
  std::size_t sent_bytes() const noexcept { return sent_; }
  std::size_t held_bytes() const noexcept { return (given_.size() + taken_.size()) * sizeof(T); }

 private:
  /// Tokens that follow each other, of every sequence; `first` and `stride` are tokens in memory.
  struct Stretch {
    int peer;
    std::int64_t first, stride, count;
  };

  static std::vector<Stretch> gives_of(const SequenceCut& cut, int rank, std::int64_t reach);
  static std::vector<Stretch> takes_of(const SequenceCut& cut, int rank, std::int64_t reach, std::int64_t sequences);
  Counts counts_of(const std::vector<Stretch>& stretches, int ranks) const;
  /// f(elements in tokens or halo, elements in a message, how many) of each stretch and sequence.
  template <class F>
  void for_each_copy(const std::vector<Stretch>& stretches, const F& f) const;
  void exchange(const std::vector<T>& going, const Counts& sends, std::vector<T>& coming, const Counts& takes);

  CallGroup group_;
  int rank_;
  std::int64_t sequences_, channels_, reach_, pieces_;
  std::vector<Stretch> gives_, takes_;  // among this rank's tokens, in its halos; by peer
  Counts given_counts_, taken_counts_;
  std::vector<T> given_, taken_;
  std::size_t sent_ = 0;
};

extern template class HaloExchange<float>;
extern template class HaloExchange<double>;

}  // namespace sinew::parallel
