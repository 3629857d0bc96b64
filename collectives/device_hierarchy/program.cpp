#include <algorithm>
#include <utility>

#include <sinew/collectives/device_hierarchy/program.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {
namespace {

using Among = HierarchyStep::Among;
using Of = HierarchyMemory::Of;

/// Calls up to this size are not divided among the ranks of a host. Each rank exchanges all elements with the other
/// hosts, which saves a step.
constexpr std::size_t kFewBytes = 16 << 10;

/// Describes the calls of one rank.
class Composer {
 public:
  Composer(const CollectiveDesc& desc, const HostsOfGroup& hosts, int rank, bool has_all_roles)
      : desc_(desc),
        hosts_(hosts),
        each_(size_of(desc.dtype)),
        per_host_(static_cast<std::uint64_t>(hosts.ranks_per_host())),
        host_(static_cast<std::size_t>(hosts.host_of[static_cast<std::size_t>(rank)])),
        place_(static_cast<std::uint64_t>(hosts.place_of[static_cast<std::size_t>(rank)])),
        has_all_roles_(has_all_roles) {}

  HierarchyProgram compose() {
    switch (desc_.collective) {
      case Collective::AllReduce: all_reduce(); break;
      case Collective::AllGather: all_gather(); break;
      case Collective::ReduceScatter: reduce_scatter(); break;
      case Collective::AllToAll: all_to_all(); break;
      default: broadcast(); break;
    }
    return std::move(program_);
  }

 private:
  using Needs = std::vector<std::size_t>;

  HierarchyMemory memory(Of of, std::uint64_t first, std::uint64_t elements) const {
    return {of, first * each_, elements * each_};
  }
  CollectiveDesc describe(Collective collective, std::uint64_t count, Among among) const {
    CollectiveDesc d{.collective = collective, .dtype = desc_.dtype, .place = desc_.place, .count = count};
    if (!reduces(collective)) return d;
    d.op = desc_.op;
    if (desc_.op != ReduceOp::PreMulSum) return d;
    d.pre_multiply = desc_.pre_multiply;
    if (among == Among::Rail) d.op = ReduceOp::Sum;  // each contribution has its factor by then
    return d;
  }
  std::size_t add(Among among, const CollectiveDesc& d, HierarchyMemory in, HierarchyMemory out, Needs needs) {
    program_.steps.push_back({among, d, in, out, std::move(needs)});
    return program_.steps.size() - 1;
  }
  /// A step on `count` elements of `out` from `first` on.
  std::size_t add_within_out(Among among, Collective collective, std::uint64_t first, std::uint64_t count,
                             Needs needs) {
    const HierarchyMemory where = memory(Of::Out, first, count);
    return add(among, describe(collective, count, among), where, where, std::move(needs));
  }
  /// Gathers `part` elements of each rank of the host. They lie in `out` from `first` on, one part behind the other.
  void add_gather(std::uint64_t first, std::uint64_t part, Needs needs) {
    if (part == 0) return;
    add(Among::Host, describe(Collective::AllGather, part, Among::Host), memory(Of::Out, first + place_ * part, part),
        memory(Of::Out, first, part * per_host_), std::move(needs));
  }
  /// Visits the pieces of a call by first element and length. The length of each but the last is a multiple of the
  /// number of ranks on a host.
  template <class F>
  void for_each_piece(F&& visit) const {
    const std::uint64_t longest = std::max<std::uint64_t>(1, kRailPieceBytes / each_) * per_host_;
    std::uint64_t first = 0;
    do {
      const std::uint64_t length = std::min(longest, desc_.count - first);
      visit(first, length);
      first += length;
    } while (first < desc_.count);
  }
  bool is_short() const { return desc_.count * each_ <= kFewBytes || desc_.count < per_host_; }

  void all_reduce();
  void all_gather();
  void reduce_scatter();
  void all_to_all();
  void broadcast();

  const CollectiveDesc& desc_;
  const HostsOfGroup& hosts_;
  const std::size_t each_;
  const std::uint64_t per_host_;
  const std::size_t host_;
  const std::uint64_t place_;
  const bool has_all_roles_;
  HierarchyProgram program_;
};

/// Within the host each rank gets the sum of one part. It adds the sums of the other hosts, and gathers the other
/// parts.
void Composer::all_reduce() {
  const auto sum_all = [this](std::uint64_t first, std::uint64_t count) {
    const std::size_t summed = add(Among::Host, describe(Collective::AllReduce, count, Among::Host),
                                   memory(Of::In, first, count), memory(Of::Out, first, count), {});
    add_within_out(Among::Rail, Collective::AllReduce, first, count, {summed});
  };
  if (is_short()) return sum_all(0, desc_.count);
  std::uint64_t before = 0;  // of the piece before this one: where it begins, the part of a rank, its last step
  std::uint64_t part_before = 0;
  std::size_t last_before = 0;
  for_each_piece([&](std::uint64_t first, std::uint64_t length) {
    const std::uint64_t part = length / per_host_;
    const std::uint64_t shared = part * per_host_;
    std::size_t exchanged = 0;
    if (part > 0) {
      const std::uint64_t mine = first + place_ * part;
      const std::size_t summed = add(Among::Host, describe(Collective::ReduceScatter, part, Among::Host),
                                     memory(Of::In, first, shared), memory(Of::Out, mine, part), {});
      exchanged = add_within_out(Among::Rail, Collective::AllReduce, mine, part, {summed});
    }
    if (shared < length) sum_all(first + shared, length - shared);
    add_gather(before, part_before, {last_before});
    before = first;
    part_before = part;
    last_before = exchanged;
  });
  add_gather(before, part_before, {last_before});
}

/// Each rank gets the blocks of the ranks at its place on the other hosts. Then the ranks of a host gather these
/// blocks, host by host.
void Composer::all_gather() {
  const std::uint64_t n = desc_.count;
  const auto first_of = [&](std::size_t host) { return host * per_host_ * n; };
  const auto gather_host = [&](std::size_t host, HierarchyMemory in, Needs needs) {
    add(Among::Host, describe(Collective::AllGather, n, Among::Host), in,
        memory(Of::Out, first_of(host), per_host_ * n), std::move(needs));
  };
  for (std::size_t h = 0; h < hosts_.ranks_on.size(); ++h) {
    program_.counts.push_back(n);
    program_.displacements.push_back(first_of(h) + place_ * n);
  }
  CollectiveDesc between = describe(Collective::AllGatherV, 0, Among::Rail);
  between.counts = program_.counts;
  between.displacements = program_.displacements;
  const HierarchyMemory mine = memory(Of::In, 0, n);
  const std::size_t exchanged = add(Among::Rail, between, mine, memory(Of::Out, 0, n * hosts_.host_of.size()), {});
  gather_host(host_, mine, {});
  for (std::size_t h = 0; h < hosts_.ranks_on.size(); ++h) {
    if (h != host_) gather_host(h, memory(Of::Out, program_.displacements[h], n), {exchanged});
  }
}

/// Within the host each rank sums the blocks for the ranks at its place on all hosts. Then these ranks exchange the
/// sums.
void Composer::reduce_scatter() {
  const std::uint64_t n = desc_.count;
  const std::uint64_t hosts = hosts_.ranks_on.size();
  Needs summed;
  for (std::uint64_t h = 0; h < hosts; ++h) {
    summed.push_back(add(Among::Host, describe(Collective::ReduceScatter, n, Among::Host),
                         memory(Of::In, h * per_host_ * n, per_host_ * n), memory(Of::Scratch, h * n, n), {}));
  }
  add(Among::Rail, describe(Collective::ReduceScatter, n, Among::Rail), memory(Of::Scratch, 0, hosts * n),
      memory(Of::Out, 0, n), std::move(summed));
  program_.scratch_bytes = hosts * n * each_;
}

/// Within the host each rank collects the blocks that the host sends to the ranks at its place. Then it sends one
/// message to each of these ranks.
void Composer::all_to_all() {
  const std::uint64_t n = desc_.count;
  const std::uint64_t of_host = per_host_ * n;
  const std::uint64_t hosts = hosts_.ranks_on.size();
  Needs collected;
  for (std::uint64_t h = 0; h < hosts; ++h) {
    collected.push_back(add(Among::Host, describe(Collective::AllToAll, n, Among::Host),
                            memory(Of::In, h * of_host, of_host), memory(Of::Scratch, h * of_host, of_host), {}));
  }
  add(Among::Rail, describe(Collective::AllToAll, of_host, Among::Rail), memory(Of::Scratch, 0, hosts * of_host),
      memory(Of::Out, 0, hosts * of_host), std::move(collected));
  program_.scratch_bytes = hosts * of_host * each_;
}

/// The root sends to the ranks of its host. Each of them sends one part to the other hosts, whose ranks gather the
/// parts.
void Composer::broadcast() {
  const auto root = static_cast<std::size_t>(desc_.root);
  const auto root_host = static_cast<std::size_t>(hosts_.host_of[root]);
  const bool is_beside_root = host_ == root_host || has_all_roles_;
  const auto add_from = [&](Among among, int from, std::uint64_t first, std::uint64_t count, Needs needs) {
    const std::size_t step = add_within_out(among, Collective::Broadcast, first, count, std::move(needs));
    program_.steps[step].desc.root = from;
    return step;
  };
  std::uint64_t before = 0;  // as in all_reduce()
  std::uint64_t part_before = 0;
  Needs needs_before;
  const auto gather_before = [&] {
    if (host_ != root_host || has_all_roles_) add_gather(before, part_before, needs_before);
  };
  for_each_piece([&](std::uint64_t first, std::uint64_t length) {
    const std::uint64_t part = is_short() ? 0 : length / per_host_;
    const std::uint64_t shared = part * per_host_;
    Needs here;
    if (is_beside_root) here.push_back(add_from(Among::Host, hosts_.place_of[root], first, length, {}));
    const int from = static_cast<int>(root_host);
    Needs exchanged;
    if (part > 0) exchanged.push_back(add_from(Among::Rail, from, first + place_ * part, part, here));
    if (shared < length || length == 0) add_from(Among::Rail, from, first + shared, length - shared, here);
    gather_before();
    before = first;
    part_before = part;
    needs_before = exchanged;
  });
  gather_before();
}

}  // namespace

HierarchyProgram hierarchy_program(const CollectiveDesc& desc, const HostsOfGroup& hosts, int rank) {
  return Composer(desc, hosts, rank, false).compose();
}

HierarchyProgram longest_hierarchy_program(const CollectiveDesc& desc, const HostsOfGroup& hosts) {
  return Composer(desc, hosts, 0, true).compose();
}

}  // namespace sinew
