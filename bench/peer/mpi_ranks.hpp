#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <mpi.h>

/// The ranks of a peer module that an MPI's launcher has started. Its functions are those of Peer.
namespace sinew::bench::mpi_ranks {

struct State {
  std::string name;
  bool started_here = false;
  int rank = 0;
  int size = 1;
};

inline State& state() {
  static State only;
  return only;
}

inline const char* name() { return state().name.c_str(); }

inline void start() {
  State& s = state();
  int running = 0;
  MPI_Initialized(&running);
  if (running == 0) {
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given);
    s.started_here = true;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.size);
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  s.name = text;
  s.name = s.name.substr(0, s.name.find_first_of(",\n"));
  for (char& c : s.name) c = c == '\t' ? ' ' : c;
}

inline void stop() {
  if (state().started_here) MPI_Finalize();
}

inline int rank() { return state().rank; }
inline int size() { return state().size; }

inline void all_gather(const void* mine, std::size_t bytes, void* context,
                       void (*take)(void*, const void*, std::size_t)) {
  const auto ranks = static_cast<std::size_t>(state().size);
  int length = static_cast<int>(bytes);
  std::vector<int> lengths(ranks);
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::vector<int> starts(ranks + 1);
  for (std::size_t r = 0; r < ranks; ++r) starts[r + 1] = starts[r] + lengths[r];
  std::vector<char> all(static_cast<std::size_t>(starts[ranks]) + 1);
  MPI_Allgatherv(mine, length, MPI_BYTE, all.data(), lengths.data(), starts.data(), MPI_BYTE, MPI_COMM_WORLD);
  for (std::size_t r = 0; r < ranks; ++r) take(context, all.data() + starts[r], static_cast<std::size_t>(lengths[r]));
}

}  // namespace sinew::bench::mpi_ranks
