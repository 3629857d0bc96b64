#include "sinew_contestant.hpp"

#include <algorithm>
#include <source_location>
#include <vector>

#include <sinew/tools/check/exact_values.hpp>

namespace sinew::tools {
namespace {

constexpr std::size_t kWindow = 64;
constexpr std::uint32_t kAcknowledge = 1;

}  // namespace

CollectiveDesc desc_of(const BenchOptions& options, std::uint64_t count, std::span<const std::uint64_t> counts,
                       int ranks) {
  CollectiveDesc desc;
  desc.collective = options.what->collective;
  desc.dtype = options.dtype;
  desc.op = options.op;
  if (has_root(desc.collective)) desc.root = options.root;
  desc.determinism = options.determinism;
  desc.count = count;
  desc.codec = options.codec;
  if (has_shared_counts(desc.collective)) desc.counts = counts;
  if (has_local_counts(desc.collective)) desc.largest_bytes = count * unit_bytes(*options.what, options.dtype, ranks);
  if (options.op == ReduceOp::PreMulSum) desc.pre_multiply = check::kPreMultiply;
  return desc;
}

SinewContestant::SinewContestant(const BenchOptions& options, Communicator& communicator, const BufferRing& ring,
                                 std::uint64_t count)
    : what_(*options.what),
      dtype_(options.dtype),
      op_(options.op),
      root_(options.root),
      communicator_(communicator),
      ring_(ring) {
  if (op_ == ReduceOp::PreMulSum) options_.pre_multiply = check::kPreMultiply;
  options_.determinism = options.determinism;
  options_.codec = options.codec;
  options_.where = std::source_location::current();
  if (!is_v_form(what_.collective)) return;
  counts_ = skewed_counts(what_, communicator.rank(), communicator.size(), count);
  options_.largest_bytes = count * unit_bytes(what_, dtype_, communicator.size());
}

void SinewContestant::run(std::size_t first_slot, std::size_t calls) {
  if (what_.exercise == Exercise::Bandwidth) return stream(first_slot, calls);
  for (std::size_t c = 0; c < calls; ++c) call(first_slot + c);
}

void SinewContestant::call(std::size_t slot) {
  switch (what_.exercise) {
    case Exercise::AllReduce:
      return communicator_.all_reduce(ring_.in(slot), ring_.out(slot), dtype_, op_, options_).get();
    case Exercise::AllGather: return communicator_.all_gather(ring_.in(slot), ring_.out(slot), dtype_, options_).get();
    case Exercise::ReduceScatter:
      return communicator_.reduce_scatter(ring_.in(slot), ring_.out(slot), dtype_, op_, options_).get();
    case Exercise::AllToAll: return communicator_.all_to_all(ring_.in(slot), ring_.out(slot), dtype_, options_).get();
    case Exercise::Broadcast: return communicator_.broadcast(ring_.out(slot), dtype_, root_, options_).get();
    case Exercise::Reduce:
      return communicator_.reduce(ring_.in(slot), ring_.out(slot), dtype_, root_, op_, options_).get();
    case Exercise::Gather: return communicator_.gather(ring_.in(slot), ring_.out(slot), dtype_, root_, options_).get();
    case Exercise::Scatter:
      return communicator_.scatter(ring_.in(slot), ring_.out(slot), dtype_, root_, options_).get();
    case Exercise::AllGatherV:
      return communicator_.all_gather_v(ring_.in(slot), ring_.out(slot), dtype_, {counts_}, options_).get();
    case Exercise::ReduceScatterV:
      return communicator_.reduce_scatter_v(ring_.in(slot), ring_.out(slot), dtype_, {counts_}, op_, options_).get();
    case Exercise::AllToAllV:
      return communicator_.all_to_all_v(ring_.in(slot), ring_.out(slot), dtype_, {counts_}, {counts_}, options_).get();
    case Exercise::Barrier: return communicator_.barrier(options_).get();
    case Exercise::SendRecv: return send_recv(slot);
    case Exercise::Latency: return ping_pong(slot);
    case Exercise::Bandwidth: return;
  }
}

void SinewContestant::send_recv(std::size_t slot) {
  const int rank = communicator_.rank();
  const int size = communicator_.size();
  communicator_.sendrecv(ring_.in(slot), (rank + 1) % size, ring_.out(slot), (rank + size - 1) % size).get();
}

void SinewContestant::ping_pong(std::size_t slot) {
  const int rank = communicator_.rank();
  if (rank > 1) return;
  Work arrival = communicator_.recv(ring_.out(slot), 1 - rank);
  if (rank == 1) arrival.get();
  communicator_.send(ring_.in(slot), 1 - rank).get();
  if (rank == 0) arrival.get();
}

/// The end of a stream is when the receiver has it all.
void SinewContestant::stream(std::size_t first_slot, std::size_t calls) {
  const int rank = communicator_.rank();
  if (rank > 1) return;
  std::vector<Work> window(std::min(calls, kWindow));
  for (std::size_t c = 0; c < calls; ++c) {
    Work& oldest = window[c % kWindow];
    if (c >= kWindow) oldest.get();
    oldest =
        rank == 0 ? communicator_.send(ring_.in(first_slot + c), 1) : communicator_.recv(ring_.out(first_slot + c), 0);
  }
  for (Work& work : window) work.get();
  (rank == 0 ? communicator_.recv({}, 1, kAcknowledge) : communicator_.send({}, 0, kAcknowledge)).get();
}

}  // namespace sinew::tools
