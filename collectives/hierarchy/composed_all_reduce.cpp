#include <algorithm>

#include <sinew/collectives/hierarchy/composer.hpp>

namespace sinew {

void Composer::all_reduce(const Ranks& ranks, std::size_t level, const Slices& in, const Slices& out) {
  const auto parts = parts_of(ranks, level);
  if (!parts) return run(Collective::AllReduce, how_.across, ranks, in, out, true);
  struct Stripe {
    int first = 0, chunks = 0;
  };
  std::vector<Stripe> stripes;
  int most = 0;
  for (int s = 0, first = 0; s < parts->stripes; ++s) {
    stripes.push_back({first, chunks(how_, desc_, parts->equals(s), level + 1)});
    first += stripes.back().chunks;
    most = std::max(most, stripes.back().chunks);
  }
  const Ranks& own = parts->own();
  const auto chunk_of = [&](const Slices& of, int wave, int place, int c) -> Slice {
    const int s = wave * count(own) + place;
    if (s >= parts->stripes || c >= stripes[static_cast<std::size_t>(s)].chunks) return {};
    return of[static_cast<std::size_t>(stripes[static_cast<std::size_t>(s)].first + c)];
  };
  const auto inside = [&](Collective collective) {
    for (int wave = 0; wave < parts->waves(); ++wave) {
      for (int c = 0; c < most; ++c) {
        Slices many;
        const bool scatters = collective == Collective::ReduceScatter;
        for (int place = 0; place < count(own); ++place) many.push_back(chunk_of(scatters ? in : out, wave, place, c));
        const Slices mine{chunk_of(out, wave, parts->place, c)};
        scatters ? run(collective, how_.inside, own, many, mine, false)
                 : run(collective, how_.inside, own, mine, many, false);
      }
    }
  };
  inside(Collective::ReduceScatter);
  for (int s = 0; s < parts->stripes; ++s) {
    if (!parts->carries(s)) continue;
    const auto [first, chunks] = stripes[static_cast<std::size_t>(s)];
    const auto piece = [first, chunks](const Slices& of) {
      return Slices(of.begin() + first, of.begin() + first + chunks);
    };
    all_reduce(parts->equals(s), level + 1, piece(own.size() == 1 ? in : out), piece(out));
  }
  inside(Collective::AllGather);
}

}  // namespace sinew
