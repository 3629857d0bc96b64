#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include <sinew/collectives/launch/meeting_record.hpp>
#include <sinew/collectives/launch/pmi1.hpp>
#include <sinew/collectives/launch/pmi1_client.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/parse_number.hpp>

namespace sinew {
namespace {

/// The one line to the launcher, of this process and not of its forks.
struct Line {
  std::mutex mutex;
  std::unique_ptr<Pmi1Client> client;
  pid_t owner = 0;
};

Line& line() {
  static auto* l = new Line;  // the exit handler may run after static destructors
  return *l;
}

/// What MPI_Initialized or MPI_Finalized says, where the program is linked with MPI.
bool mpi_says(const char* function) {
  using Inquiry = int (*)(int*);
  const auto ask = reinterpret_cast<Inquiry>(::dlsym(RTLD_DEFAULT, function));
  int flag = 0;
  return ask != nullptr && ask(&flag) == 0 && flag != 0;
}

void tell_launcher_the_end() {
  Line& l = line();
  if (!l.client || l.owner != ::getpid() || mpi_says("MPI_Initialized")) return;
  try {
    l.client->finalize(Deadline::after(std::chrono::seconds(5)));
  } catch (const Error&) {
    // The launcher is gone or busy ending the job; there is nobody left to tell.
  }
}

Pmi1Client& client(int descriptor, Deadline deadline) {
  Line& l = line();
  if (mpi_says("MPI_Finalized")) {
    throw Error(Code::Unavailable,
                "MPI_Finalize has ended this process's line to mpirun (PMI_FD): make worlds before it");
  }
  if (!l.client) {
    l.client = std::make_unique<Pmi1Client>(descriptor, deadline);
    l.owner = ::getpid();
    std::atexit(&tell_launcher_the_end);
  }
  return *l.client;
}

std::string key_of(int world, std::size_t part) { return fmt::format("sinew-{}-{}", world, part); }

void put_record(Pmi1Client& pmi, int world, const MeetingRecord& record, Deadline deadline) {
  const std::string text = to_hex(record.encode());
  const std::size_t stride = pmi.longest_value() - 1;
  const std::size_t parts = (text.size() + stride - 1) / stride;
  pmi.put(key_of(world, 0), fmt::format("{}", parts), deadline);
  for (std::size_t i = 0; i < parts; ++i) pmi.put(key_of(world, i + 1), text.substr(i * stride, stride), deadline);
}

MeetingRecord get_record(Pmi1Client& pmi, int world, Deadline deadline) {
  const auto parts = parse_number<std::size_t>(pmi.get(key_of(world, 0), deadline)).value_or(0);
  std::string text;
  for (std::size_t i = 0; i < parts; ++i) text += pmi.get(key_of(world, i + 1), deadline);
  return MeetingRecord::decode(from_hex(text));
}

}  // namespace

Launch launch_from_pmi1(const LaunchVariables& v, const Config& config) {
  const std::scoped_lock lock(line().mutex);
  const Deadline deadline = Deadline::after(config.timeout);
  Pmi1Client& pmi = client(v.pmi_descriptor, deadline);
  const int world = next_world();
  const SocketAddress place = user_socket(fmt::format("{}.{}", pmi.key_space(), world));
  const bool several_hosts = v.local_ranks != v.ranks;
  Meeting meeting{v.rank, v.ranks, {place}, {}, fmt::format("world {}", world)};
  Hosting hosting;
  if (v.rank == 0) {
    hosting = host_meeting(place, v.ranks, several_hosts, config);
    meeting.secret = hosting.record.secret;
    if (several_hosts) put_record(pmi, world, hosting.record, deadline);
  }
  if (several_hosts) {
    pmi.barrier(deadline);
    if (v.rank != 0) follow(get_record(pmi, world, deadline), meeting);
  }
  Joined joined = join(meeting, std::move(hosting.store), config);
  return {LaunchKind::Pmi1,
          std::move(joined.exchange),
          joined.store->secret(),
          pmi.key_space(),
          v.local_rank,
          v.local_ranks,
          joined.store};
}

}  // namespace sinew
