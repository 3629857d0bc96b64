// A rank that meets the others of its job and prints one line about it. The first argument says how often (default 1),
// the second how many bytes each brings.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/error.hpp>

#if defined(PROBE_MPI)
#include <mpi.h>

#include <sinew/collectives/mpi_exchange.hpp>
#endif

namespace {

using sinew::Bytes;

/// Everybody's part must be what its rank brings.
void check(const sinew::Exchange& exchange, std::size_t bytes, int round) {
  const auto fill = [round](int rank) { return static_cast<std::byte>(rank * 7 + round); };
  const auto all = exchange.all_gather(Bytes(bytes, fill(exchange.rank)));
  for (int r = 0; r < exchange.size; ++r) {
    if (all.size() != static_cast<std::size_t>(exchange.size) ||
        all[static_cast<std::size_t>(r)] != Bytes(bytes, fill(r))) {
      throw sinew::Error(sinew::Code::Mismatch,
                         fmt::format("round {}: rank {}'s bytes are not what it brought", round, r));
    }
  }
}

void meet(int world, std::size_t bytes) {
  const sinew::Launch launch = sinew::exchange_from_environment(sinew::Config::from_environment());
  for (int round = 0; round < 3; ++round) check(launch.exchange, bytes, round);
  const auto secrets = launch.exchange.all_gather(launch.secret);
  const bool same = std::ranges::all_of(secrets, [&](const Bytes& s) { return s == launch.secret && s.size() == 32; });
  fmt::print("world {} rank {} of {} kind {} local {} of {} secret {}\n", world, launch.exchange.rank,
             launch.exchange.size, sinew::name_of(launch.kind), launch.local_rank, launch.local_ranks,
             same ? "shared" : "DIFFERS");
}

#if defined(PROBE_MPI)
void meet_over_mpi() {
  const sinew::Exchange exchange = sinew::mpi_exchange(MPI_COMM_WORLD);
  for (int round = 0; round < 3; ++round) check(exchange, 100 + static_cast<std::size_t>(round), round);
  fmt::print("mpi rank {} of {}\n", exchange.rank, exchange.size);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    const int worlds = argc > 1 ? std::atoi(argv[1]) : 1;
    const auto bytes = static_cast<std::size_t>(argc > 2 ? std::atoll(argv[2]) : 100);
#if defined(PROBE_MPI)
    const std::string order = argc > 3 ? argv[3] : "after";  // when MPI is initialised: before or after
    if (order == "before") MPI_Init(&argc, &argv);
    for (int w = 0; w < worlds; ++w) meet(w, bytes);
    if (order == "after") MPI_Init(&argc, &argv);
    meet_over_mpi();
    if (order == "before") meet(worlds, bytes);
    MPI_Finalize();
#else
    for (int w = 0; w < worlds; ++w) meet(w, bytes);
#endif
    return 0;
  } catch (const sinew::Error& e) {
    fmt::print("{}: {}\n", sinew::name_of(e.code()), e.what());
    return 3;
  }
}
