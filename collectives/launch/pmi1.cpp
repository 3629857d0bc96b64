#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap_record.hpp>
#include <sinew/collectives/launch/pmi1.hpp>
#include <sinew/collectives/launch/protocols/pmi1_client.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

/// The one line to the launcher, PMI_FD or a connection to PMI_PORT, of this process and not of its forks.
struct Line {
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
  if (!l.client || l.owner != ::getpid()) return;
  if (!l.client->owns_connection() && mpi_says("MPI_Initialized")) return;
  try {
    l.client->finalize(Deadline::after(std::chrono::seconds(5)));
  } catch (const Error&) {
    // The launcher is gone or busy ending the job; there is nobody left to tell.
  }
}

Pmi1Client& client(const LaunchVariables& v, Deadline deadline) {
  Line& l = line();
  const bool shared = v.pmi_descriptor >= 0;
  if (shared && mpi_says("MPI_Finalized")) {
    throw Error(Code::Unavailable,
                "MPI_Finalize has ended this process's line to mpirun (PMI_FD): make worlds before it");
  }
  // Hydra answers barriers on the process's newest connection: MPI would wait for one that came to this client.
  if (!shared && mpi_says("MPI_Initialized")) {
    throw Error(Code::Unavailable,
                fmt::format("PMI_PORT={}: mpiexec knows one connection of this process, and MPI_Init has made it: make "
                            "worlds before it, or over MPI (sinew/collectives/mpi_exchange.hpp), or start the ranks "
                            "without -pmi-port",
                            v.pmi_port));
  }
  if (!l.client) {
    l.client = shared ? std::make_unique<Pmi1Client>(v.pmi_descriptor, deadline)
                      : std::make_unique<Pmi1Client>(v.pmi_port, v.pmi_id, deadline);
    l.owner = ::getpid();
    std::atexit(&tell_launcher_the_end);
  }
  return *l.client;
}

/// Returns what recv() says of a byte that stays where it is: 0 if the launcher has closed the line, else 1, or -1 and
/// errno.
ssize_t look_at_line(int descriptor) {
  char byte = 0;
  return ::recv(descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/// The descriptor is a socket that somebody holds at the other end. It may be none of the launcher's where a program
/// between has closed the descriptors that it did not know.
bool is_line(int descriptor) { return look_at_line(descriptor) > 0 || errno == EAGAIN || errno == EWOULDBLOCK; }

/// The first rank of a host tells for all of them what they wait for.
bool speaks_for_host(const LaunchVariables& v) {
  return (v.local_rank >= 0 ? v.local_rank : variable_number(process_environment(), "SLURM_LOCALID", 0).value_or(0)) ==
         0;
}

std::string key_of(int world, std::size_t part) { return fmt::format("sinew-{}-{}", world, part); }

void put_record(Pmi1Client& pmi, int world, const BootstrapRecord& record, Deadline deadline) {
  const std::string text = to_hex(record.encode());
  const std::size_t stride = pmi.longest_value() - 1;
  const std::size_t parts = (text.size() + stride - 1) / stride;
  pmi.put(key_of(world, 0), fmt::format("{}", parts), deadline);
  for (std::size_t i = 0; i < parts; ++i) pmi.put(key_of(world, i + 1), text.substr(i * stride, stride), deadline);
}

BootstrapRecord get_record(Pmi1Client& pmi, int world, Deadline deadline) {
  const auto parts = parse_number<std::size_t>(pmi.get(key_of(world, 0), deadline)).value_or(0);
  std::string text;
  for (std::size_t i = 0; i < parts; ++i) text += pmi.get(key_of(world, i + 1), deadline);
  return BootstrapRecord::decode(from_hex(text));
}

}  // namespace

bool pmi1_is_over(const LaunchVariables& v) {
  const ProcessLock lock(OfProcess::Pmi1Line);
  return v.kind == LaunchKind::Pmi1 && v.pmi_descriptor >= 0 && !line().client && look_at_line(v.pmi_descriptor) == 0;
}

std::optional<Launch> launch_from_pmi1(const LaunchVariables& told, int world, const Config& config) {
  const ProcessLock lock(OfProcess::Pmi1Line);
  if (told.kind != LaunchKind::Pmi1 && !line().client && !is_line(told.pmi_descriptor)) return std::nullopt;
  const Deadline deadline = Deadline::after(config.timeout);
  Pmi1Client& pmi = client(told, deadline);
  LaunchVariables v = told;
  if (v.ranks == 0) {
    v.rank = pmi.rank();
    v.ranks = pmi.ranks();
    if (v.ranks == 1)
      return Launch{LaunchKind::Pmi1, exchange_alone(), random_secret(), pmi.key_space(), 0, 1, nullptr};
  }
  const SocketAddress place = user_socket(fmt::format("{}.{}", pmi.key_space(), world));
  const bool several_hosts = v.local_ranks != v.ranks;
  // Whoever reaches PMI_PORT may read what is put there: a record that goes that way holds no secret.
  const bool public_record = several_hosts && pmi.owns_connection();
  if (public_record && config.secret_file.empty()) {
    throw Error(
        Code::Unavailable,
        fmt::format("PMI_PORT={}: ranks are on several hosts, so they need a shared secret, and mpiexec does not "
                    "ask who reads from this port: start them without -pmi-port, or set SINEW_SECRET_FILE to a "
                    "file with the same random bytes on every host",
                    v.pmi_port));
  }
  Bootstrap bootstrap{v.rank, v.ranks, {place}, {}, fmt::format("world {}", world)};
  Hosting hosting;
  if (v.rank == 0) {
    hosting = host_bootstrap(place, v.ranks, several_hosts, config);
    bootstrap.secret = hosting.record.secret;
    if (public_record) hosting.record.secret.clear();
    if (several_hosts) put_record(pmi, world, hosting.record, deadline);
  }
  if (several_hosts) {
    const std::function<void()> late = [&v, &config] {
      log::warning(
          "rank {} of {} on {} has waited for {} s for the other ranks, and the launcher does not say which of them "
          "have not come; see what they have printed, and on which hosts no rank says this; they are awaited {}",
          v.rank, v.ranks, host_name(), std::chrono::duration<double>(SearchNotice::kAfter).count(),
          until_timeout(config));
    };
    pmi.barrier(deadline, SearchNotice::kAfter,
                is_told_of(config) && speaks_for_host(v) ? late : std::function<void()>());
    if (v.rank != 0) follow(get_record(pmi, world, deadline), bootstrap);
    if (public_record) bootstrap.secret = secret_from_file(config.secret_file);
  }
  Joined joined = join(bootstrap, std::move(hosting.store), config);
  return Launch{
      v.kind,      std::move(joined.exchange), joined.store->secret(), pmi.key_space(), v.local_rank, v.local_ranks,
      joined.store};
}

}  // namespace sinew
