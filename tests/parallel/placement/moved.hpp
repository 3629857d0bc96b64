#pragma once

#include <array>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/placement/redistribution/redistribute.hpp>

#include "placed_data.hpp"
#include "support/worlds.hpp"

namespace sinew::parallel::test {

/// A tensor and two placements of it.
struct Journey {
  TensorSpec from;
  Placements to;

  TensorSpec arrived() const {
    TensorSpec spec = from;
    spec.placements = to;
    return spec;
  }
  std::string text() const { return from.to_string() + ": " + from.placements.to_string() + " -> " + to.to_string(); }
};

/// What all ranks, threads of this process, hold after a journey. Two boards in turn: who is a journey ahead writes on
/// the other one.
struct Boards {
  std::array<std::vector<Bytes>, 2> held;
  explicit Boards(int ranks) : held{std::vector<Bytes>(static_cast<std::size_t>(ranks)), held[0]} {}
};

/// Moves a tensor and has every rank look at what all have then.
inline void require_moved(World& world, Mesh& mesh, const Journey& journey, unsigned number, Boards& boards) {
  const auto& axes = mesh.shape().axes();
  std::vector<Bytes>& held = boards.held[number % 2];
  Bytes before = data_of(journey.from, axes, mesh.rank(), number);
  Bytes& after = held[static_cast<std::size_t>(mesh.rank())];
  after.assign(local_bytes(journey.arrived(), mesh.shape(), mesh.rank()), std::byte{0x5a});
  const Bytes untouched = before;
  redistribute(Tensor{journey.from, {before.data(), before.size()}},
               Tensor{journey.arrived(), {after.data(), after.size()}}, mesh);
  sinew::test::require(before == untouched, journey.text() + " changed what it reads");
  world.communicator().barrier().get();
  const std::string wrong = wrong_in(journey.arrived(), axes, mesh.rank(), held);
  sinew::test::require(wrong.empty(), journey.text() + ": " + wrong);
}

}  // namespace sinew::parallel::test
