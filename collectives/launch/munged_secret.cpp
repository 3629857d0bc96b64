#include <poll.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/munged_secret.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/server_search.hpp>
#include <sinew/core/system/fork_count.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

constexpr std::uint32_t kSecretService = 0x474e554d;  ///< in AuthClaim: "MUNG"
constexpr std::size_t kLongestCredential = 4000;
constexpr std::size_t kMostWaiting = 1024;  ///< connections that wait for their credentials; more are closed
constexpr Duration kPatience = std::chrono::seconds(2);

/// Connections for credentials are authenticated by a key that everybody can compute. It only shows that both ends mean
/// the same job, so that other listeners are recognised.
Bytes public_key(const std::string& job) { return WireWriter().text("sinew, the secret of job " + job).take(); }

AuthClaim claim_of(const std::string& job) { return {.service = kSecretService, .instance = store_number(job)}; }

/// Waits until the socket is ready. Returns false if the deadline has passed.
bool wait_for(const FramedStream& stream, Deadline deadline) {
  pollfd wait{stream.descriptor(), static_cast<short>(stream.interest().write ? POLLOUT : POLLIN), 0};
  return ::poll(&wait, 1, deadline.left_ms(1000)) > 0 || !deadline.passed();
}

void deliver(Socket socket, const std::string& credential) {
  FramedStream stream(std::move(socket), 0);
  stream.send(FramedStream::frame(std::as_bytes(std::span(credential))));
  const Deadline deadline = Deadline::after(kPatience);
  for (stream.flush(); !stream.idle() && !stream.ended() && wait_for(stream, deadline);) stream.flush();
}

/// The credential that rank 0 sends. Errors: Error{Unavailable} with what came instead.
std::string receive_credential(Socket socket) {
  FramedStream stream(std::move(socket), kLongestCredential);
  std::optional<Bytes> credential;
  const auto read = [&] { stream.read([&](Bytes message) { credential = std::move(message); }); };
  const Deadline deadline = Deadline::after(kPatience);
  for (read(); !credential && !stream.ended() && wait_for(stream, deadline);) read();
  if (!credential) {
    throw Error(Code::Unavailable, stream.ended() ? fmt::format("rank 0 sends no credential ({})", stream.reason())
                                                  : "rank 0 sends no credential in time");
  }
  return std::string(reinterpret_cast<const char*>(credential->data()), credential->size());
}

/// The secret in a credential. Errors: those of Munge::open; Mismatch if the credential is of another job.
Bytes secret_in(const std::string& credential, const Munge& munge, const std::string& job) {
  const Bytes content = munge.open(credential);
  WireReader reader(content);
  const std::string said = reader.text();
  if (said != job) throw Error(Code::Mismatch, fmt::format("the credential is of job '{}', not of '{}'", said, job));
  return reader.owned_bytes();
}

}  // namespace

struct SecretOffer::State {
  std::shared_ptr<ListeningPort> port;
  std::shared_ptr<const Munge> munge;
  Bytes content;  // of each credential
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Socket> waiting;
  bool is_over = false;
  ForkMark fork;
  std::thread thread;
  ListeningPort::Service service;

  void take(Socket socket) {
    const std::scoped_lock lock(mutex);
    if (waiting.size() < kMostWaiting) waiting.push_back(std::move(socket));
    changed.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return is_over || !waiting.empty(); });
      if (is_over) return;
      Socket socket = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      try {
        deliver(std::move(socket), munge->seal(content));
      } catch (const Error& e) {
        log::warning("a rank of another host gets no secret: {}", e.what());
      }
      lock.lock();
    }
  }
};

SecretOffer::SecretOffer(std::shared_ptr<ListeningPort> port, std::shared_ptr<const Munge> munge,
                         const std::string& job, Bytes secret)
    : state_(std::make_unique<State>()) {
  state_->port = std::move(port);
  state_->munge = std::move(munge);
  state_->content = WireWriter().text(job).bytes(secret).take();
  state_->thread = thread_without_signals([s = state_.get()] { s->run(); });
  state_->service =
      state_->port->serve(claim_of(job), public_key(job),
                          [s = state_.get()](const AuthClaim&, Socket socket) { s->take(std::move(socket)); });
}

SecretOffer::~SecretOffer() { end(); }

void SecretOffer::end() {
  state_->service = {};
  if (!state_->thread.joinable()) return;
  if (state_->fork.in_child()) {  // a fork's child has no such thread
    state_->thread.detach();
    return;
  }
  {
    const std::scoped_lock lock(state_->mutex);
    state_->is_over = true;
    state_->changed.notify_one();
  }
  state_->thread.join();
}

Bytes ask_for_secret(const std::vector<SocketAddress>& addresses, const Munge& munge, const std::string& job,
                     const Config& config, std::shared_ptr<SearchNotice> notice) {
  ServerSearch search({.addresses = addresses,
                       .keys = {public_key(job), TlsContext::open(config.tls)},
                       .claim = claim_of(job),
                       .notice = std::move(notice)},
                      Deadline::after(config.timeout));
  for (;;) {
    auto [socket, at] = search.next();
    try {
      return secret_in(receive_credential(std::move(socket)), munge, job);
    } catch (const Error& e) {
      search.reject(at, fmt::format("{}: {}", addresses[at].text(), e.what()), true);
    }
  }
}

}  // namespace sinew
