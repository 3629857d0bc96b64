#include "support/v_case.hpp"

#include <algorithm>
#include <vector>

namespace sinew::test {
namespace {

constexpr std::byte kUntouched{0xa5};

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
  std::vector<std::byte> memory() const { return std::vector<std::byte>(elements_ * each_, kUntouched); }
  Buffer part(std::vector<std::byte>& memory, int r) const {
    const auto i = static_cast<std::size_t>(r);
    return {memory.data() + displacements_[i] * each_, counts_[i] * each_};
  }
  /// Bytes outside of all parts that are not as they were.
  std::uint64_t spilt(std::vector<std::byte> memory) const {
    for (std::size_t r = 0; r < counts_.size(); ++r) {
      std::fill_n(memory.data() + displacements_[r] * each_, counts_[r] * each_, kUntouched);
    }
    return static_cast<std::uint64_t>(std::ranges::count_if(memory, [](std::byte b) { return b != kUntouched; }));
  }

 private:
  std::size_t each_;
  bool displaced_;
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint64_t> displacements_;
  std::uint64_t elements_ = 0;
};

Buffer whole(std::vector<std::byte>& memory) { return {memory.data(), memory.size()}; }

struct Run {
  Communicator& all;
  const VCase& c;
  const check::Pattern& pattern;
  const CallOptions& options;
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

  std::uint64_t all_gather() const {
    const Layout layout = shared();
    std::vector<std::byte> out = layout.memory();
    std::vector<std::byte> apart(layout.count(me) * each);
    const Buffer in = c.in_place ? layout.part(out, me) : whole(apart);
    check::fill(pattern, me, 0, in);
    all.all_gather_v(in, whole(out), c.dtype, layout.parts(), options).get();
    return gathered(layout, out);
  }
  std::uint64_t gather() const {
    const Layout layout = shared();
    const bool root = me == c.root;
    std::vector<std::byte> out = root ? layout.memory() : std::vector<std::byte>();
    std::vector<std::byte> apart(layout.count(me) * each);
    const Buffer in = root && c.in_place ? layout.part(out, me) : whole(apart);
    check::fill(pattern, me, 0, in);
    all.gather_v(in, whole(out), c.dtype, c.root, root ? layout.parts() : Parts{}, options).get();
    return root ? gathered(layout, out) : 0;
  }
  std::uint64_t gathered(const Layout& layout, std::vector<std::byte>& out) const {
    std::uint64_t wrong = layout.spilt(out);
    for (int r = 0; r < ranks; ++r) wrong += check::wrong_copied(pattern, r, 0, layout.part(out, r));
    return wrong;
  }

  /// The root's row, one part after the other.
  std::uint64_t scatter() const {
    const Layout layout = shared();
    const bool root = me == c.root;
    std::vector<std::byte> in = root ? layout.memory() : std::vector<std::byte>();
    for (int r = 0; r < ranks && root; ++r) check::fill(pattern, me, first(r), layout.part(in, r));
    std::vector<std::byte> apart(layout.count(me) * each);
    const Buffer out = root && c.in_place ? layout.part(in, me) : whole(apart);
    all.scatter_v(whole(in), out, c.dtype, c.root, root ? layout.parts() : Parts{}, options).get();
    return (root ? layout.spilt(in) : 0) + check::wrong_copied(pattern, c.root, first(me), out);
  }

  std::uint64_t reduce_scatter() const {
    const Layout layout = shared();
    std::vector<std::byte> in = layout.memory();
    for (int r = 0; r < ranks; ++r) check::fill(pattern, me, first(r), layout.part(in, r));
    std::vector<std::byte> apart(layout.count(me) * each);
    const Buffer out = c.in_place ? layout.part(in, me) : whole(apart);
    all.reduce_scatter_v(whole(in), out, c.dtype, layout.parts(), c.op, options).get();
    std::uint64_t wrong = layout.spilt(in) + check::wrong_combined(pattern, first(me), out);
    for (int r = 0; r < ranks && !c.in_place; ++r)
      wrong += check::wrong_copied(pattern, me, first(r), layout.part(in, r));
    return wrong;
  }

  /// Apart, the two sides are laid out differently, and ranks differ in that.
  std::uint64_t all_to_all() const {
    const auto count_with = [this](int r) { return pair_count(me, r); };
    const Layout from(ranks, c.torn, each, count_with);
    const Layout to(ranks, c.in_place ? c.torn : me % 2 == 0, each, count_with);
    std::vector<std::byte> in = from.memory();
    std::vector<std::byte> apart = to.memory();
    std::vector<std::byte>& out = c.in_place ? in : apart;
    const auto begin = [this](int receiver) { return static_cast<std::uint64_t>(receiver) * 2 * c.count; };
    for (int r = 0; r < ranks; ++r) check::fill(pattern, me, begin(r), from.part(in, r));
    all.all_to_all_v(whole(in), whole(out), c.dtype, from.parts(), to.parts(), options).get();
    std::uint64_t wrong = to.spilt(out);
    for (int r = 0; r < ranks; ++r) wrong += check::wrong_copied(pattern, r, begin(me), to.part(out, r));
    for (int r = 0; r < ranks && !c.in_place; ++r)
      wrong += check::wrong_copied(pattern, me, begin(r), from.part(in, r));
    return wrong;
  }
};

}  // namespace

std::uint64_t run_v_case(Communicator& communicator, const VCase& c, const check::Pattern& pattern,
                         const CallOptions& options) {
  const Run run{communicator, c, pattern, options};
  switch (c.collective) {
    case Collective::AllGatherV: return run.all_gather();
    case Collective::ReduceScatterV: return run.reduce_scatter();
    case Collective::AllToAllV: return run.all_to_all();
    case Collective::GatherV: return run.gather();
    default: return run.scatter();
  }
}

}  // namespace sinew::test
