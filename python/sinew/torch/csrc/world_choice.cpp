#include "world_choice.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/secret.hpp>

namespace sinew::torch_backend::world_choice {
namespace {

struct Place {
  WorldId world;
  std::int32_t rank;
};

std::vector<Place> read_offer(const Bytes& offer) {
  WireReader reader(offer);
  std::vector<Place> places;
  while (reader.left() > 0) places.push_back(reader.value<Place>());
  return places;
}

/// The members' ranks in the World, in the order of the members; empty: not all of them have a place of their own.
std::vector<int> ranks_in(const WorldId& world, const std::vector<std::vector<Place>>& offers) {
  std::vector<int> ranks;
  for (const auto& places : offers) {
    const auto place = std::ranges::find(places, world, &Place::world);
    if (place == places.end() || std::ranges::find(ranks, place->rank) != ranks.end()) return {};
    ranks.push_back(place->rank);
  }
  return ranks;
}

Bytes written(const WorldChoice& choice) {
  WireWriter writer;
  writer.value(choice.world).value(static_cast<std::uint32_t>(choice.ranks.size()));
  for (const int rank : choice.ranks) writer.value(static_cast<std::int32_t>(rank));
  return writer.rest(choice.secret).take();
}

}  // namespace

std::vector<std::shared_ptr<JoinedWorld>> offered_by(int global_rank) {
  std::vector<std::shared_ptr<JoinedWorld>> worlds = JoinedWorld::all();
  std::erase_if(worlds, [](const auto& w) { return !w->serves(); });
  // Several ranks of a World may be threads of this process. Then the number of the process in the job tells which one
  // this is; it is not the same in all groups, and so not asked where there is one rank.
  std::map<WorldId, int> places;
  for (const auto& w : worlds) ++places[w->id()];
  std::erase_if(worlds, [&](const auto& w) { return places[w->id()] > 1 && w->global_rank() != global_rank; });
  return worlds;
}

Bytes offer(const std::vector<std::shared_ptr<JoinedWorld>>& worlds) {
  WireWriter writer;
  for (const auto& w : worlds) writer.value(Place{w->id(), static_cast<std::int32_t>(w->world().rank())});
  return writer.take();
}

Bytes decide(const std::vector<Bytes>& offers) {
  std::vector<std::vector<Place>> places;
  for (const Bytes& o : offers) places.push_back(read_offer(o));
  WorldChoice choice;
  for (const Place& own : places.front()) {
    choice.world = own.world;
    choice.ranks = ranks_in(own.world, places);
    if (!choice.is_new()) return written(choice);
  }
  fill_random(choice.world);
  choice.secret = random_secret();
  return written(choice);
}

WorldChoice read(const Bytes& decision) {
  WireReader reader(decision);
  WorldChoice choice;
  choice.world = reader.value<WorldId>();
  for (auto left = reader.value<std::uint32_t>(); left > 0; --left)
    choice.ranks.push_back(reader.value<std::int32_t>());
  choice.secret = reader.rest();
  return choice;
}

}  // namespace sinew::torch_backend::world_choice
