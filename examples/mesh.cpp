// Arranges the ranks of a job and sums over the groups of a rank.
// Try: sinew-run -n 8 build/release/bin/mesh_example 2 2     (tensor parallel 2, pipelines of 2 stages)
#include <array>
#include <cstdio>
#include <cstdlib>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>

int main(int argc, char** argv) try {
  auto world = sinew::World::from_environment();
  sinew::parallel::LayoutSizes sizes;
  if (argc > 1) sizes.tp = std::atoi(argv[1]);
  if (argc > 2) sizes.pp = std::atoi(argv[2]);

  sinew::parallel::JobMesh job(world.communicator(), sizes);
  sinew::parallel::Mesh& mesh = job.dense();
  std::array<int, 1> activations{1 << world.rank()};
  std::array<int, 1> gradients = activations;
  mesh.along("tp").all_reduce(activations).get();
  mesh.along("dp-cp").all_reduce(gradients).get();

  std::printf("rank %d: tp %d of %d, dp %d of %d, stage %d of %d; tp sums ranks 0x%x, dp 0x%x\n", world.rank(),
              mesh.index("tp"), mesh.size("tp"), mesh.index("dp"), mesh.size("dp"), mesh.index("pp"), mesh.size("pp"),
              static_cast<unsigned>(activations[0]), static_cast<unsigned>(gradients[0]));
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "mesh_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}
