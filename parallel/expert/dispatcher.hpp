#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/parallel/expert/dispatch.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// How tokens get to their experts.
enum class DispatchKind : std::uint8_t {
  AllGather,     ///< every rank gets all tokens; sums come back by reduce_scatter
  AllToAll,      ///< each expert's rank gets its tokens, once for each expert
  Hierarchical,  ///< a token crosses to another host once, whatever experts it has there
};

/// "all_gather", "all_to_all", "hierarchical".
SINEW_API std::string_view name_of(DispatchKind kind) noexcept;

struct DispatchShape {
  std::string name;  ///< as errors show it: "blocks.3.experts"
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t width = 1;                       ///< elements of a token
  std::int64_t chunks = 1;                      ///< into which each rank's experts are divided, at most
  Determinism determinism = Determinism::Fast;  ///< of the sums that collectives make
};

/// Who makes Dispatch from a router's decision. Experts are spread evenly over the ranks of a group, in their order:
/// rows_of({}, rank, ranks, experts).
/// Thread:   the World's. Lifetime: ends before the communicators.
/// Cost:     AllGather: an all_gather of all tokens and a reduce_scatter of as much. AllToAll: all_to_all_v of rows
///           each way, assignments * width elements at most. Hierarchical: between hosts a row for each token and host
///           each way, sums made on the way back. plan() in all of them two small exchanges, of numbers and of gates.
///           Room for what is packed and what comes, as large as the largest passage so far.
/// Source:   Megatron-LM, token dispatchers; two hops: DeepEP, Rajbhandari et al., DeepSpeed-MoE, arXiv 2201.05596.
template <class T>
class SINEW_API Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  /// Errors: InvalidArgument on all ranks alike where a router had a logit that is no number: router, rank, token
  ///         and expert; on this rank for a routing of another shape. Collective over the ranks.
  virtual std::unique_ptr<Dispatch<T>> plan(const Routing<T>& routing) = 0;
  /// Of this rank.
  virtual Rows experts() const noexcept = 0;
  /// Of rows and sums, handed to others since it was made; without numbers and gates. All-gather: at least.
  virtual std::size_t sent_bytes() const noexcept = 0;
  /// Of these, to ranks of other hosts.
  virtual std::size_t sent_between_hosts() const noexcept = 0;
  virtual std::size_t held_bytes() const noexcept = 0;

 protected:
  Dispatcher() = default;
  Dispatcher(const Dispatcher&) = default;
  Dispatcher& operator=(const Dispatcher&) = default;
};

/// The ranks that share experts.
struct ExpertRanks {
  Communicator* experts = nullptr;  ///< over whom experts are spread (ep); empty: this rank has all
  Communicator* tensor = nullptr;   ///< who share each of them (etp): each sees the tokens of all; null: none do
  std::vector<int> hosts;           ///< by rank of `experts`; empty: all on one
};

/// With ranks that share experts (etp) rows() are those of all of them, in every one, and what combine() is given is
/// this rank's part of a sum.
/// Errors: InvalidArgument for a shape that has no experts, tokens or chunks, and for hosts of another number of ranks.
///         Hierarchical: a split, as that.
template <class T>
SINEW_API std::unique_ptr<Dispatcher<T>> make_dispatcher(
    DispatchKind kind, const ExpertRanks& ranks, const DispatchShape& shape,
    const std::source_location& where = std::source_location::current());

extern template std::unique_ptr<Dispatcher<float>> make_dispatcher(DispatchKind, const ExpertRanks&,
                                                                   const DispatchShape&, const std::source_location&);
extern template std::unique_ptr<Dispatcher<double>> make_dispatcher(DispatchKind, const ExpertRanks&,
                                                                    const DispatchShape&, const std::source_location&);

}  // namespace sinew::parallel
