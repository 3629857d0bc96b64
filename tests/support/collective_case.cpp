#include "support/collective_case.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include <sinew/tools/check/exact_data.hpp>

#include "support/case_storage.hpp"
#include "support/v_case.hpp"

namespace sinew::test {
namespace {

using check::Pattern;

struct Call {
  Communicator& communicator;
  const CollectiveCase& c;
  Pattern pattern;
  std::uint64_t each;  // bytes of `count` elements
  std::uint64_t ranks;
  std::uint64_t me;
  const OnDevice* where;
  CallOptions options{};

  bool root() const { return communicator.rank() == c.root; }
};

std::uint64_t all_reduce(Call& k) {
  Storage in(k.each, k.c.offset, k.where);
  Storage out(k.each, k.c.offset, k.where);
  Storage& to = k.c.in_place ? in : out;
  check::fill(k.pattern, k.communicator.rank(), 0, in.host());
  in.give();
  k.communicator.all_reduce(in.call(), to.call(), k.c.dtype, k.c.op, k.options).get();
  to.take();
  std::uint64_t wrong = check::wrong_combined(k.pattern, 0, to.host());
  if (k.c.in_place) return wrong;
  in.take();
  return wrong + check::wrong_copied(k.pattern, k.communicator.rank(), 0, in.host());
}

std::uint64_t reduce_scatter(Call& k) {
  Storage in(k.each * k.ranks, k.c.offset, k.where);
  Storage out(k.each, k.c.offset, k.where);
  const auto mine = [&](Buffer whole) { return whole.part(k.me * k.each, k.each); };
  check::fill(k.pattern, k.communicator.rank(), 0, in.host());
  in.give();
  const Buffer to = k.c.in_place ? mine(in.call()) : out.call();
  k.communicator.reduce_scatter(in.call(), to, k.c.dtype, k.c.op, k.options).get();
  in.take();
  out.take();
  if (k.c.in_place) return check::wrong_combined(k.pattern, k.me * k.c.count, mine(in.host()));
  return check::wrong_combined(k.pattern, k.me * k.c.count, out.host()) +
         check::wrong_copied(k.pattern, k.communicator.rank(), 0, in.host());
}

std::uint64_t all_gather(Call& k) {
  Storage in(k.each, k.c.offset, k.where);
  Storage out(k.each * k.ranks, k.c.offset, k.where);
  const auto mine = [&](Buffer whole) { return whole.part(k.me * k.each, k.each); };
  check::fill(k.pattern, k.communicator.rank(), 0, k.c.in_place ? mine(out.host()) : in.host());
  in.give();
  if (k.c.in_place) out.give();
  k.communicator.all_gather(k.c.in_place ? mine(out.call()) : in.call(), out.call(), k.c.dtype, k.options).get();
  out.take();
  std::uint64_t wrong = 0;
  for (std::uint64_t r = 0; r < k.ranks; ++r) {
    wrong += check::wrong_copied(k.pattern, static_cast<int>(r), 0, out.host().part(r * k.each, k.each));
  }
  return wrong;
}

std::uint64_t all_to_all(Call& k) {
  Storage in(k.each * k.ranks, k.c.offset, k.where);
  Storage out(k.each * k.ranks, k.c.offset, k.where);
  Storage& to = k.c.in_place ? in : out;
  check::fill(k.pattern, k.communicator.rank(), 0, in.host());
  in.give();
  k.communicator.all_to_all(in.call(), to.call(), k.c.dtype, k.options).get();
  to.take();
  std::uint64_t wrong = 0;
  for (std::uint64_t r = 0; r < k.ranks; ++r) {
    wrong += check::wrong_copied(k.pattern, static_cast<int>(r), k.me * k.c.count, to.host().part(r * k.each, k.each));
  }
  return wrong;
}

std::uint64_t broadcast(Call& k) {
  Storage data(k.each, k.c.offset, k.where);
  if (k.communicator.rank() == k.c.root) check::fill(k.pattern, k.c.root, 0, data.host());
  data.give();
  k.communicator.broadcast(data.call(), k.c.dtype, k.c.root, k.options).get();
  data.take();
  return check::wrong_copied(k.pattern, k.c.root, 0, data.host());
}

std::uint64_t reduce(Call& k) {
  Storage in(k.each, k.c.offset, k.where);
  Storage out(k.root() ? k.each : 0, k.c.offset, k.where);
  Storage& to = k.c.in_place ? in : out;
  check::fill(k.pattern, k.communicator.rank(), 0, in.host());
  in.give();
  k.communicator.reduce(in.call(), to.call(), k.c.dtype, k.c.root, k.c.op, k.options).get();
  to.take();
  std::uint64_t wrong = k.root() ? check::wrong_combined(k.pattern, 0, to.host()) : 0;
  if (k.root() && k.c.in_place) return wrong;
  in.take();
  return wrong + check::wrong_copied(k.pattern, k.communicator.rank(), 0, in.host());
}

std::uint64_t gather(Call& k) {
  Storage in(k.each, k.c.offset, k.where);
  Storage out(k.root() ? k.each * k.ranks : 0, k.c.offset, k.where);
  const auto mine = [&](Buffer whole) { return whole.part(k.me * k.each, k.each); };
  const bool in_place = k.c.in_place && k.root();
  check::fill(k.pattern, k.communicator.rank(), 0, in_place ? mine(out.host()) : in.host());
  in.give();
  out.give();
  k.communicator.gather(in_place ? mine(out.call()) : in.call(), out.call(), k.c.dtype, k.c.root, k.options).get();
  out.take();
  std::uint64_t wrong = 0;
  for (std::uint64_t r = 0; r < k.ranks && k.root(); ++r) {
    wrong += check::wrong_copied(k.pattern, static_cast<int>(r), 0, out.host().part(r * k.each, k.each));
  }
  return wrong;
}

std::uint64_t scatter(Call& k) {
  Storage in(k.root() ? k.each * k.ranks : 0, k.c.offset, k.where);
  Storage out(k.each, k.c.offset, k.where);
  const auto mine = [&](Buffer whole) { return whole.part(k.me * k.each, k.each); };
  const bool in_place = k.c.in_place && k.root();
  if (k.root()) check::fill(k.pattern, k.c.root, 0, in.host());
  in.give();
  k.communicator.scatter(in.call(), in_place ? mine(in.call()) : out.call(), k.c.dtype, k.c.root, k.options).get();
  in.take();
  out.take();
  const Buffer result = in_place ? mine(in.host()) : out.host();
  const std::uint64_t changed = k.root() ? check::wrong_copied(k.pattern, k.c.root, 0, in.host()) : 0;
  return changed + check::wrong_copied(k.pattern, k.c.root, k.me * k.c.count, result);
}

std::uint64_t run_v_form(Call& k) {
  const VCase v{k.c.collective, k.c.dtype, k.c.op, k.c.count, k.c.in_place, k.c.root, k.c.offset != 0};
  return run_v_case(k.communicator, v, k.pattern, k.options, k.where);
}

constexpr std::array kCollectives = {Collective::AllReduce, Collective::AllGather,     Collective::ReduceScatter,
                                     Collective::AllToAll,  Collective::Broadcast,     Collective::Reduce,
                                     Collective::Gather,    Collective::Scatter,       Collective::AllGatherV,
                                     Collective::AllToAllV, Collective::GatherV,       Collective::ScatterV,
                                     Collective::Barrier,   Collective::ReduceScatterV};

/// Buffer bytes to try: empty, tiny, odd and prime, both sides of every switch of method, large.
constexpr std::array<std::uint64_t, 16> kBytes = {0,    1,     8,     24,     40,      136,     1021,     2048,
                                                  4099, 16384, 65537, 262144, 1048583, 4194304, 16777259, 67108864};

CollectiveCase make(std::size_t collective, std::size_t dtype, std::size_t op, std::size_t size, std::size_t place,
                    int ranks) {
  CollectiveCase c;
  c.collective = kCollectives[collective];
  c.dtype = all_dtypes()[dtype];
  c.op = all_reduce_ops()[op];
  const bool whole = c.collective == Collective::AllReduce || c.collective == Collective::Broadcast ||
                     c.collective == Collective::Reduce;
  const std::uint64_t cut = whole ? 1 : static_cast<std::uint64_t>(ranks);
  const std::uint64_t wanted = kBytes[size] / size_of(c.dtype) / cut;
  c.count = wanted == 0 && kBytes[size] > 0 ? 1 : wanted;
  c.in_place = place == 1;
  c.root = static_cast<int>(size) % ranks;
  c.offset = place == 0 && size % 3 == 1 ? size_of(c.dtype) : 0;
  return c;
}

bool runs(const CollectiveCase& c) { return !reduces(c.collective) || is_defined(c.op, c.dtype); }

}  // namespace

std::string CollectiveCase::to_string() const {
  return fmt::format("{} {} {} count {} root {}{}{}", name_of(collective), name_of(dtype), name_of(op), count, root,
                     in_place ? " in place" : "", offset ? " misaligned" : "");
}

std::uint64_t run_case(Communicator& communicator, const CollectiveCase& c, std::uint32_t salt, const OnDevice* where) {
  const bool combines = reduces(c.collective);
  Call call{communicator,
            c,
            {c.dtype, combines ? c.op : ReduceOp::Max, communicator.size(), salt},
            c.count * size_of(c.dtype),
            static_cast<std::uint64_t>(communicator.size()),
            static_cast<std::uint64_t>(communicator.rank()),
            where};
  if (where != nullptr) call.options.after = where->stream;
  call.options.pre_multiply = check::kPreMultiply;
  switch (c.collective) {
    case Collective::AllReduce: return all_reduce(call);
    case Collective::ReduceScatter: return reduce_scatter(call);
    case Collective::AllGather: return all_gather(call);
    case Collective::AllToAll: return all_to_all(call);
    case Collective::Broadcast: return broadcast(call);
    case Collective::Reduce: return reduce(call);
    case Collective::Gather: return gather(call);
    case Collective::Scatter: return scatter(call);
    case Collective::AllGatherV:
    case Collective::ReduceScatterV:
    case Collective::AllToAllV:
    case Collective::GatherV:
    case Collective::ScatterV: return run_v_form(call);
    default: communicator.barrier().get(); return 0;
  }
}

std::vector<CollectiveCase> all_cases(int ranks, std::uint64_t largest_bytes) {
  std::vector<CollectiveCase> cases;
  for (std::size_t k = 0; k < kCollectives.size(); ++k) {
    for (std::size_t t = 0; t < all_dtypes().size(); ++t) {
      for (std::size_t o = 0; o < all_reduce_ops().size(); ++o) {
        for (std::size_t s = 0; s < kBytes.size() && kBytes[s] <= largest_bytes; ++s) {
          for (std::size_t p = 0; p < 2; ++p) {
            const CollectiveCase c = make(k, t, o, s, p, ranks);
            if (runs(c) && (reduces(c.collective) || o == 0)) cases.push_back(c);
          }
        }
      }
    }
  }
  return cases;
}

std::vector<CollectiveCase> pairwise_cases(int ranks, std::uint64_t largest_bytes) {
  // Greedy: of the combinations, in a fixed scattered order, keep each that covers a pair not seen before.
  const auto sizes =
      static_cast<std::size_t>(std::ranges::count_if(kBytes, [&](auto b) { return b <= largest_bytes; }));
  const std::array<std::size_t, 5> counts = {kCollectives.size(), all_dtypes().size(), all_reduce_ops().size(), sizes,
                                             2};
  std::size_t total = 1;
  for (const std::size_t n : counts) total *= n;
  std::set<std::array<std::size_t, 4>> seen;
  std::vector<CollectiveCase> cases;
  for (std::size_t step = 0; step < total; ++step) {
    std::size_t rest = step * 7919 % total;  // 7919 is prime to every product of these counts
    std::array<std::size_t, 5> pick{};
    for (std::size_t d = 0; d < pick.size(); ++d) {
      pick[d] = rest % counts[d];
      rest /= counts[d];
    }
    const CollectiveCase c = make(pick[0], pick[1], pick[2], pick[3], pick[4], ranks);
    if (!runs(c)) continue;
    bool fresh = false;
    for (std::size_t a = 0; a < pick.size(); ++a) {
      for (std::size_t b = a + 1; b < pick.size(); ++b) fresh |= seen.insert({a, pick[a], b, pick[b]}).second;
    }
    if (fresh) cases.push_back(c);
  }
  return cases;
}

}  // namespace sinew::test
