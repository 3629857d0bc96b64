#include "world_choice.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/random.hpp>
#include <sinew/core/secret.hpp>

namespace sinew::torch_backend::world_choice {
namespace {

struct Place {
  WorldId world;
  std::int32_t rank;
};

template <class T>
void append(Bytes& message, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  message.insert(message.end(), bytes.begin(), bytes.end());
}

template <class T>
T take(std::span<const std::byte>& message) {
  if (message.size() < sizeof(T))
    throw Error(Code::Mismatch,
                "start-up: another rank's sinew.torch wrote too few bytes into the store; install the "
                "same version on all hosts");
  T value;
  std::memcpy(&value, message.data(), sizeof(T));
  message = message.subspan(sizeof(T));
  return value;
}

std::vector<Place> read_offer(std::span<const std::byte> offer) {
  std::vector<Place> places;
  while (!offer.empty()) places.push_back(take<Place>(offer));
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
  Bytes decision;
  append(decision, choice.world);
  append(decision, static_cast<std::uint32_t>(choice.ranks.size()));
  for (const int rank : choice.ranks) append(decision, static_cast<std::int32_t>(rank));
  decision.insert(decision.end(), choice.secret.begin(), choice.secret.end());
  return decision;
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
  Bytes offered;
  for (const auto& w : worlds) append(offered, Place{w->id(), static_cast<std::int32_t>(w->world().rank())});
  return offered;
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
  std::span<const std::byte> rest(decision);
  WorldChoice choice;
  choice.world = take<WorldId>(rest);
  for (auto left = take<std::uint32_t>(rest); left > 0; --left) choice.ranks.push_back(take<std::int32_t>(rest));
  choice.secret.assign(rest.begin(), rest.end());
  return choice;
}

}  // namespace sinew::torch_backend::world_choice
