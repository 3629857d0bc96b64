// Arranges the ranks of a job and sums over the groups of a rank.
// Try: sinew-run -n 8 build/release/bin/mesh_example 2 2     (tensor parallel 2, pipelines of 2 stages)
#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>

#include "usage.hpp"

static int size_of_axis(std::string_view text) {
  int size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error == std::errc{} && end == text.data() + text.size()) return size;
  throw sinew::Error(sinew::Code::InvalidArgument, "'" + std::string(text) + "': expected a number of ranks");
}

int main(int argc, char** argv) try {
  if (example::is_asked_for_usage(argc, argv, "mesh_example [TP [PP]]   with sinew-run -n RANKS before it")) return 0;
  if (argc > 3) throw sinew::Error(sinew::Code::InvalidArgument, "expected TP and PP at most");
  auto world = sinew::World::from_environment();
  sinew::parallel::LayoutSizes sizes;
  if (argc > 1) sizes.tp = size_of_axis(argv[1]);
  if (argc > 2) sizes.pp = size_of_axis(argv[2]);

  sinew::parallel::JobMesh job(world.communicator(), sizes);
  sinew::parallel::Mesh& mesh = job.dense();
  std::array<int, 1> activations{world.rank()};
  std::array<int, 1> gradients = activations;
  mesh.along("tp").all_reduce(activations).get();
  mesh.along("dp-cp").all_reduce(gradients).get();

  std::printf("rank %d: tp %d of %d, dp %d of %d, stage %d of %d; its tp ranks sum to %d, dp to %d\n", world.rank(),
              mesh.index("tp"), mesh.size("tp"), mesh.index("dp"), mesh.size("dp"), mesh.index("pp"), mesh.size("pp"),
              activations[0], gradients[0]);
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "mesh_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
