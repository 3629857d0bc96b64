#pragma once

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/data_parallel/memory/held_memory.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>

namespace sinew::parallel {

/// The functions that give memory to data parallelism, as HeldMemory takes them.
struct MemorySources {
  Allocate engine;  ///< memory where the engine computes
  Allocate kept;    ///< memory for what is offloaded; null: nothing is
};

/// An exception of these functions ends the World of `ranks` and is rethrown: other ranks would wait for this one.
MemorySources memory_sources(Communicator& ranks, const Allocate& allocate, const DataParallelOptions& options);

}  // namespace sinew::parallel
