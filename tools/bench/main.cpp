#include <string>

#include <CLI/CLI.hpp>

#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/version/version_text.hpp>

#include "bench_run.hpp"

int main(int argc, char** argv) {
  using namespace sinew::tools;
  BenchOptions options;
  CLI::App app("Measures collectives and messages between the ranks it is started as, and checks every result.",
               "sinew-bench");
  app.set_version_flag("--version", version_text());
  add_bench_options(app, options);
  app.footer(
      "Examples:\n"
      "  sinew-run -n 2 sinew-bench all_reduce -b 8 -e 64MiB          a table from 8 bytes to 64 MiB\n"
      "  sinew-run -n 4 sinew-bench all_to_all -d bf16 --json out     the same for scripts, one object per line\n"
      "  mpirun -n 2 sinew-bench all_reduce --peer mpi                beside MPI, in the same processes\n"
      "  sinew-run -n 2 sinew-bench tune --output FILE                times every way; SINEW_TUNE_FILE=FILE uses it\n"
      "  sinew-run -n 4 sinew-bench all_reduce --determinism reproducible    what the same bits everywhere cost\n"
      "  sinew-run -n 2 sinew-bench latency --transport tcp           one way, half of the round trip\n"
      "  sinew-run -n 2 sinew-bench reduce -d all -o all -r all -n 0  is everything right? nothing is timed\n"
      "  sinew-bench all_reduce --cluster dgx-h100x8 -b 64KiB -e 1MiB     64 threads as on a cluster that is not here\n"
      "  sinew-bench all_reduce --cluster dgx-h100x8 --device cuda    what NCCL would take there, predicted\n"
      "\n"
      "A time is per call, of the slowest rank, the median over batches that last 200 us. A batch uses no buffer "
      "twice,\n"
      "and between batches all inputs are written and all outputs read, as a program would. Lines are marked\n"
      "noisy where other processes took more than 2 % of the cores, or delayed more than a quarter of the batches, in\n"
      "spite of three repeats. The column p99 comes from a pass of its own, in which each call is timed alone: 99 of\n"
      "100 calls took no longer.\n"
      "\n"
      "Options that nccl-tests has, too, mean the same: -b -e -i -f -n -w -c -d -o -r, and -g and -t, which must be 1. "
      "The\n"
      "root column is -1 where a collective has none. The parts of all_gatherv, reduce_scatterv and all_to_allv are "
      "skewed: part r of P has\n"
      "2(r+1)/(P+1) times the mean, and rank i sends rank j part (i+j) mod P of an all_to_allv.\n");
  return run(
      app, argc, argv, [&] { return run_bench(options); }, rank_of_process());
}
