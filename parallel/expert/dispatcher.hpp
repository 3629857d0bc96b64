#pragma once

// A mixture of experts. The room holds routers, limits and balance losses for their choice, and dispatchers that carry
// tokens to experts. It may include placements and the room `common`.

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

/// The ways in which tokens get to their experts.
enum class DispatchKind : std::uint8_t {
  AllGather,     ///< every rank gets all tokens; a reduce_scatter brings sums back
  AllToAll,      ///< each expert's rank gets a token once for each of its experts
  Hierarchical,  ///< a token is sent to another host once, whatever experts it has there
};

/// "all_gather", "all_to_all", "hierarchical".
SINEW_API std::string_view name_of(DispatchKind kind) noexcept;

/// The shape of the data that a dispatcher carries.
struct DispatchShape {
  std::string name{};  ///< as errors show it: "blocks.3.experts"
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t width = 1;                       ///< elements of a token
  std::int64_t chunks = 1;                      ///< into which each rank's experts are divided, at most
  Determinism determinism = Determinism::Fast;  ///< of sums that collectives make
};

/// Makes a Dispatch from a router's decision. Experts are spread evenly over the ranks of a group, in their order:
/// rows_of({}, rank, ranks, experts).
/// Thread:   the World's.
/// Lifetime: ends before the communicators.
/// Cost:     AllGather: an all_gather of all tokens, and a reduce_scatter of as many bytes. AllToAll: an all_to_all_v
///           of rows each way, at most assignments * width elements. Hierarchical: between hosts one row for each token
///           and host each way; sums are made on the way back. plan(): two small exchanges, of numbers and of gates.
///           Memory for the packed and the received rows of the largest passage so far.
/// Source:   Megatron-LM, token dispatchers; two hops: DeepEP, Rajbhandari et al., DeepSpeed-MoE, arXiv 2201.05596.
template <class T>
class SINEW_API Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  /// Collective over the ranks.
  /// Errors: InvalidArgument on all ranks alike if a router had a logit that is not a number, with router, rank, token
  ///         and expert. InvalidArgument on this rank for a routing of another shape.
  virtual std::unique_ptr<Dispatch<T>> plan(const Routing<T>& routing) = 0;
  /// The experts of this rank.
  virtual Rows experts() const noexcept = 0;
  /// Bytes of rows and sums that this rank has sent, without numbers and gates. For AllGather it is a lower bound.
  virtual std::size_t sent_bytes() const noexcept = 0;
  /// The part of sent_bytes() that went to other hosts.
  virtual std::size_t sent_between_hosts() const noexcept = 0;
  virtual std::size_t held_bytes() const noexcept = 0;

 protected:
  Dispatcher() = default;
  Dispatcher(const Dispatcher&) = default;
  Dispatcher& operator=(const Dispatcher&) = default;
};

/// The ranks that share experts.
struct ExpertRanks {
  Communicator* experts = nullptr;  ///< the ranks over which experts are spread (ep); if it is empty, this rank has all
  /// The ranks that share each expert (etp). Each of them gets the tokens of all. null: experts are not shared.
  Communicator* tensor = nullptr;
  std::vector<int> hosts{};  ///< the host of each rank of `experts`; empty: all ranks are on one host
};

/// Makes a dispatcher. If ranks share experts (etp), rows() has the rows of all these ranks, and each of them passes
/// its part of a sum to combine().
/// Errors: InvalidArgument for a shape without experts, tokens or chunks, and for hosts of another number of ranks. For
///         Hierarchical also as split.
template <class T>
SINEW_API std::unique_ptr<Dispatcher<T>> make_dispatcher(
    DispatchKind kind, const ExpertRanks& ranks, const DispatchShape& shape,
    const std::source_location& where = std::source_location::current());

extern template std::unique_ptr<Dispatcher<float>> make_dispatcher(DispatchKind, const ExpertRanks&,
                                                                   const DispatchShape&, const std::source_location&);
extern template std::unique_ptr<Dispatcher<double>> make_dispatcher(DispatchKind, const ExpertRanks&,
                                                                    const DispatchShape&, const std::source_location&);

}  // namespace sinew::parallel
