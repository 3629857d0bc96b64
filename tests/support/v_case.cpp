#include "support/v_case.hpp"

#include <algorithm>
#include <vector>

#include "support/case_storage.hpp"

namespace sinew::test {
namespace {

/// A buffer of one part per rank.
class Layout {
 public:
  template <class CountOf>
  Layout(int ranks, bool torn, std::size_t each, CountOf count_of) : each_(each), displaced_(torn) {
    const auto n = static_cast<std::size_t>(ranks);
    for (std::size_t r = 0; r < n; ++r) counts_.push_back(count_of(static_cast<int>(r)));
    displacements_.resize(n);
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t r = torn ? n - 1 - k : k;
      if (torn) ++elements_;
      displacements_[r] = elements_;
      elements_ += counts_[r];
    }
  }
  Parts parts() const { return displaced_ ? Parts{counts_, displacements_} : Parts{counts_}; }
  std::uint64_t count(int r) const { return counts_[static_cast<std::size_t>(r)]; }
  std::size_t bytes() const { return elements_ * each_; }
  Buffer part(Buffer whole, int r) const {
    const auto i = static_cast<std::size_t>(r);
    return whole.part(displacements_[i] * each_, counts_[i] * each_);
  }
  /// Bytes outside of all parts that are not as they were.
  std::uint64_t spilt(Buffer whole) const {
    std::vector<std::byte> memory(whole.data, whole.data + whole.bytes);
    for (std::size_t r = 0; r < counts_.size(); ++r) {
      std::fill_n(memory.data() + displacements_[r] * each_, counts_[r] * each_, Storage::kUntouched);
    }
    return static_cast<std::uint64_t>(std::ranges::count_if(memory, [](auto b) { return b != Storage::kUntouched; }));
  }

 private:
  std::size_t each_;
  bool displaced_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> displacements_;
  std::uint64_t elements_ = 0;
};

struct Run {
  Communicator& all;
  const VCase& c;
  const check::Pattern& pattern;
  const CallOptions& options;
  const OnDevice* where;
  std::size_t each = size_of(c.dtype);
  int me = all.rank();
  int ranks = all.size();

  std::uint64_t shared_count(int r) const { return c.count * static_cast<std::uint64_t>((r + 1) % 3); }
  /// Where rank r's part begins in an endless row of all of them.
  std::uint64_t first(int r) const {
    std::uint64_t before = 0;
    for (int i = 0; i < r; ++i) before += shared_count(i);
    return before;
  }
  std::uint64_t pair_count(int i, int j) const { return c.count * static_cast<std::uint64_t>((i + j + 1) % 3); }
  Layout shared() const {
    return {ranks, c.torn, each, [this](int r) { return shared_count(r); }};
  }

  /// Of this layout, or empty.
  Storage memory(const Layout& layout, bool there = true) const { return {there ? layout.bytes() : 0, 0, where}; }

  std::uint64_t all_gather() const {
    const Layout layout = shared();
    Storage out = memory(layout);
    Storage apart(layout.count(me) * each, 0, where);
    const auto own = [&](Buffer whole) { return layout.part(whole, me); };
    check::fill(pattern, me, 0, c.in_place ? own(out.host()) : apart.host());
    out.give();
    apart.give();
    all.all_gather_v(c.in_place ? own(out.call()) : apart.call(), out.call(), c.dtype, layout.parts(), options).get();
    out.take();
    return gathered(layout, out.host());
  }
  std::uint64_t gather() const {
    const Layout layout = shared();
    const bool root = me == c.root;
    Storage out = memory(layout, root);
    Storage apart(layout.count(me) * each, 0, where);
    const bool in_place = root && c.in_place;
    const auto own = [&](Buffer whole) { return layout.part(whole, me); };
    check::fill(pattern, me, 0, in_place ? own(out.host()) : apart.host());
    out.give();
    apart.give();
    all.gather_v(in_place ? own(out.call()) : apart.call(), out.call(), c.dtype, c.root,
                 root ? layout.parts() : Parts{}, options)
        .get();
    out.take();
    return root ? gathered(layout, out.host()) : 0;
  }
  std::uint64_t gathered(const Layout& layout, Buffer out) const {
    std::uint64_t wrong = layout.spilt(out);
    for (int r = 0; r < ranks; ++r) wrong += check::wrong_copied(pattern, r, 0, layout.part(out, r));
    return wrong;
  }

  /// The root's row, one part after the other.
  std::uint64_t scatter() const {
    const Layout layout = shared();
    const bool root = me == c.root;
    Storage in = memory(layout, root);
    for (int r = 0; r < ranks && root; ++r) check::fill(pattern, me, first(r), layout.part(in.host(), r));
    Storage apart(layout.count(me) * each, 0, where);
    const bool in_place = root && c.in_place;
    in.give();
    apart.give();
    all.scatter_v(in.call(), in_place ? layout.part(in.call(), me) : apart.call(), c.dtype, c.root,
                  root ? layout.parts() : Parts{}, options)
        .get();
    in.take();
    apart.take();
    const Buffer out = in_place ? layout.part(in.host(), me) : apart.host();
    return (root ? layout.spilt(in.host()) : 0) + check::wrong_copied(pattern, c.root, first(me), out);
  }

  std::uint64_t reduce_scatter() const {
    const Layout layout = shared();
    Storage in = memory(layout);
    for (int r = 0; r < ranks; ++r) check::fill(pattern, me, first(r), layout.part(in.host(), r));
    Storage apart(layout.count(me) * each, 0, where);
    in.give();
    apart.give();
    all.reduce_scatter_v(in.call(), c.in_place ? layout.part(in.call(), me) : apart.call(), c.dtype, layout.parts(),
                         c.op, options)
        .get();
    in.take();
    apart.take();
    const Buffer out = c.in_place ? layout.part(in.host(), me) : apart.host();
    std::uint64_t wrong = layout.spilt(in.host()) + check::wrong_combined(pattern, first(me), out);
    for (int r = 0; r < ranks && !c.in_place; ++r)
      wrong += check::wrong_copied(pattern, me, first(r), layout.part(in.host(), r));
    return wrong;
  }

  /// Apart, the two sides are laid out differently, and ranks differ in that.
  std::uint64_t all_to_all() const {
    const auto count_with = [this](int r) { return pair_count(me, r); };
    const Layout from(ranks, c.torn, each, count_with);
    const Layout to(ranks, c.in_place ? c.torn : me % 2 == 0, each, count_with);
    Storage in = memory(from);
    Storage apart = memory(to, !c.in_place);
    Storage& out = c.in_place ? in : apart;
    const auto begin = [this](int receiver) { return static_cast<std::uint64_t>(receiver) * 2 * c.count; };
    for (int r = 0; r < ranks; ++r) check::fill(pattern, me, begin(r), from.part(in.host(), r));
    in.give();
    apart.give();
    all.all_to_all_v(in.call(), out.call(), c.dtype, from.parts(), to.parts(), options).get();
    in.take();
    apart.take();
    std::uint64_t wrong = to.spilt(out.host());
    for (int r = 0; r < ranks; ++r) wrong += check::wrong_copied(pattern, r, begin(me), to.part(out.host(), r));
    for (int r = 0; r < ranks && !c.in_place; ++r)
      wrong += check::wrong_copied(pattern, me, begin(r), from.part(in.host(), r));
    return wrong;
  }
};

}  // namespace

std::uint64_t run_v_case(Communicator& communicator, const VCase& c, const check::Pattern& pattern,
                         const CallOptions& options, const OnDevice* where) {
  const Run run{communicator, c, pattern, options, where};
  switch (c.collective) {
    case Collective::AllGatherV: return run.all_gather();
    case Collective::ReduceScatterV: return run.reduce_scatter();
    case Collective::AllToAllV: return run.all_to_all();
    case Collective::GatherV: return run.gather();
    default: return run.scatter();
  }
}

}  // namespace sinew::test
