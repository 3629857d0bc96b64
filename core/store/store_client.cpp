#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

constexpr Duration kGrace = std::chrono::seconds(2);  // for the server's own verdict on who did not come
constexpr Duration kAttempt = std::chrono::seconds(2);
constexpr auto kFirstPause = std::chrono::milliseconds(1);  // between two attempts
constexpr auto kLongestPause = std::chrono::milliseconds(50);
constexpr std::size_t kLongestReply = (1ull << 32) - 1;

std::uint32_t milliseconds_until(Deadline deadline) {
  if (deadline.at() == Clock::time_point::max()) return kWaitForever;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.at() - Clock::now()).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, kWaitForever - 1));
}

Deadline with_grace(Deadline deadline) {
  return deadline.at() == Clock::time_point::max() ? deadline : Deadline(deadline.at() + kGrace);
}

/// Why whoever listens is no partner, so far. Errors: `e`, if it never will be.
std::string trouble_with(const Error& e) {
  if (e.code() == Code::Mismatch) throw e;
  return e.code() == Code::Timeout ? "whoever listens says nothing" : "the connection ended at once";
}

/// False when the deadline passes first.
bool wait_for(Socket& socket, short events, Deadline deadline) {
  for (;;) {
    const short unsent = socket.wants_write() ? POLLOUT : 0;
    pollfd wait{socket.get(), static_cast<short>(events | unsent), 0};
    const int ready = ::poll(&wait, 1, deadline.left_ms(60000));
    if (ready > 0) {
      socket.flush();
      if ((wait.revents & ~unsent) != 0 || events == unsent) return true;
      continue;
    }
    if (ready < 0 && errno != EINTR) throw_errno("store: waiting for the server");
    if (deadline.passed()) return false;
  }
}

}  // namespace

StoreClient::StoreClient(Options options, Deadline deadline) : options_(std::move(options)) {
  const Deadline until = deadline.or_after(options_.timeout);
  const StoreIdentity me{options_.group, options_.rank, options_.ranks, ::getpid(), host_name()};
  const Bytes hello = WireWriter().bytes(me.encode()).take();
  for (bool is_heard = false; !is_heard;) {
    connect(until);
    try {
      ask(StoreOp::Hello, hello, until);
      is_heard = true;
    } catch (const Error&) {
      // A crowded server ends connections whose proof it has not read: nobody has heard this rank yet.
      if (broken_.empty() || until.passed()) throw;
    }
  }
}

std::optional<StoreWelcome> StoreClient::who_serves(const SocketAddress& address, Deadline deadline) {
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    auto [socket, error] = try_connect(address, deadline);
    if (error == ECONNREFUSED) return std::nullopt;
    if (error != 0 && error != EAGAIN) {
      throw_errno(fmt::format("asking at {} whose store it is", address.text()), error);
    }
    std::string why = "more wait to be heard than may";  // EAGAIN
    if (socket) {
      StoreClient visitor;
      why = visitor.greet(std::move(socket), address, deadline);
      if (why.empty() || !visitor.server_.elsewhere.empty()) return visitor.server_;
    }
    if (deadline.passed()) {
      throw Error(Code::Timeout,
                  fmt::format("{}: somebody listens there, but did not say before the deadline whose store it is ({})",
                              address.text(), why));
    }
    std::this_thread::sleep_for(pause);
  }
}

void StoreClient::connect(Deadline deadline) {
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    std::string why;
    bool refused = true;
    const std::vector<SocketAddress> addresses = options_.addresses;  // a server may send us elsewhere
    for (const SocketAddress& address : addresses) {
      const Deadline attempt(std::min(deadline.at(), Clock::now() + kAttempt));
      auto [socket, error] = try_connect(address, attempt);
      why = fmt::format("{}: {}", address.text(), std::strerror(error));
      refused = refused && error == 0;
      if (error != 0) continue;
      try {
        const std::string trouble = greet(std::move(socket), address, attempt);
        if (trouble.empty()) return;
        refused = false;
        why = fmt::format("{}: {}", address.text(), trouble);
      } catch (const Error& e) {
        if (e.code() != Code::Mismatch) throw;
        why = e.what();
      }
    }
    if (refused && !why.empty()) throw Error(Code::Mismatch, why);
    if (options_.may_come && !options_.may_come()) {
      throw Error(Code::PeerLost, fmt::format("whoever served the store is gone ({})", why), 0);
    }
    if (deadline.passed()) {
      throw Error(Code::Timeout, fmt::format("nobody serves the job's store ({}): rank 0 did not come", why), 0);
    }
    std::this_thread::sleep_for(pause);
  }
}

std::string StoreClient::greet(FileDescriptor socket, const SocketAddress& address, Deadline deadline) {
  socket_ = Socket(std::move(socket), Socket::End::Connects, address.is_unix() ? nullptr : options_.tls);
  peer_ = address;
  broken_.clear();
  if (!address.is_unix()) {
    try {
      prove(address, deadline);
    } catch (const Error& e) {
      return trouble_with(e);
    }
    return {};
  }
  ucred owner{};
  socklen_t length = sizeof owner;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &owner, &length);
  if (owner.uid != ::geteuid()) {
    throw Error(Code::Mismatch, fmt::format("{} is held by user id {} (pid {}), not by this user", address.text(),
                                            owner.uid, owner.pid));
  }
  try {
    server_ = StoreWelcome::decode(receive_frame(kWelcomeLimit, deadline));
  } catch (const Error& e) {
    return trouble_with(e);
  }
  options_.secret = server_.secret;
  if (server_.elsewhere.empty()) return {};
  options_.addresses = parse_addresses(server_.elsewhere);
  return "the store is at " + server_.elsewhere;
}

void StoreClient::prove(const SocketAddress& address, Deadline deadline) {
  Authentication authentication = Authentication::connector(options_.secret, AuthClaim{.service = kStoreService});
  for (;;) {
    switch (pump(socket_, authentication)) {
      case Proof::Proven: return;
      case Proof::Closed: lost("it closed the connection");
      case Proof::Refused: throw Error(Code::Mismatch, fmt::format("{}: {}", address.text(), authentication.reason()));
      case Proof::Underway:
        if (!wait_for(socket_, POLLIN, deadline)) {
          broken_ = fmt::format("the store at {} did not prove who it is before the deadline", peer_.text());
          throw Error(Code::Timeout, broken_);
        }
    }
  }
}

void StoreClient::lost(const std::string& how) {
  const bool launcher = server_.host == StoreHost::Launcher;
  const std::string who = launcher ? "the launcher" : "rank 0";
  broken_ = fmt::format("{}, which serves the store at {}, is gone ({})", who, peer_.text(), how);
  throw Error(Code::PeerLost, broken_, launcher ? -1 : 0);
}

void StoreClient::send_all(std::span<const std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t sent = socket_.send(data);
    if (sent >= 0) {
      data = data.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket_, POLLOUT, deadline)) {
        broken_ = fmt::format("the store at {} took no more bytes before the deadline", peer_.text());
        throw Error(Code::Timeout, broken_);
      }
    } else if (errno != EINTR) {
      lost(errno == EPROTO ? socket_.trouble() : std::strerror(errno));
    }
  }
}

void StoreClient::receive_all(std::span<std::byte> data, Deadline deadline) {
  while (!data.empty()) {
    const ssize_t got = socket_.receive(data);
    if (got > 0) {
      data = data.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      lost("it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket_, POLLIN, deadline)) {
        broken_ = fmt::format("the store at {} did not answer before the deadline", peer_.text());
        throw Error(Code::Timeout, broken_);
      }
    } else if (errno != EINTR) {
      lost(errno == EPROTO ? socket_.trouble() : std::strerror(errno));
    }
  }
}

Bytes StoreClient::receive_frame(std::size_t limit, Deadline deadline) {
  std::uint32_t length = 0;
  receive_all(std::as_writable_bytes(std::span(&length, 1)), deadline);
  if (length > limit) {
    broken_ =
        fmt::format("{} announces {} bytes, at most {} are expected: it is no store", peer_.text(), length, limit);
    throw Error(Code::Mismatch, broken_);
  }
  Bytes frame(length);
  receive_all(frame, deadline);
  return frame;
}

Bytes StoreClient::ask(StoreOp op, const Bytes& fields, Deadline deadline) {
  const std::scoped_lock lock(mutex_);
  if (!broken_.empty()) throw Error(Code::PeerLost, broken_);
  return ask_locked(op, fields, deadline.or_after(options_.timeout));
}

Bytes StoreClient::ask_locked(StoreOp op, const Bytes& fields, Deadline deadline) {
  send_all(*framed(WireWriter().value(op).value(milliseconds_until(deadline)).rest(fields).take()), deadline);
  const Bytes reply = receive_frame(kLongestReply, with_grace(deadline));
  WireReader reader(reply);
  const auto code = reader.value<Code>();
  const auto rank = reader.value<int>();
  if (code != Code::Ok) throw Error(code, reader.text(), rank);
  return reader.rest();
}

void StoreClient::set(std::string_view key, std::span<const std::byte> value, Deadline deadline) {
  ask(StoreOp::Set, WireWriter().text(key).bytes(value).take(), deadline);
}

Bytes StoreClient::get(std::string_view key, Deadline deadline) {
  const Bytes fields = ask(StoreOp::Get, WireWriter().text(key).take(), deadline);
  return WireReader(fields).owned_bytes();
}

void StoreClient::wait(std::span<const std::string> keys, Deadline deadline) {
  WireWriter names;
  for (const std::string& k : keys) names.text(k);
  ask(StoreOp::Wait, names.take(), deadline);
}

std::int64_t StoreClient::add(std::string_view key, std::int64_t amount, Deadline deadline) {
  const Bytes fields = ask(StoreOp::Add, WireWriter().text(key).value(amount).take(), deadline);
  return WireReader(fields).value<std::int64_t>();
}

bool StoreClient::compare_and_set(std::string_view key, std::optional<std::span<const std::byte>> expected,
                                  std::span<const std::byte> desired, Deadline deadline) {
  WireWriter fields;
  fields.text(key).value(static_cast<std::uint8_t>(expected.has_value()));
  if (expected) fields.bytes(*expected);
  const Bytes answer = ask(StoreOp::CompareAndSet, fields.bytes(desired).take(), deadline);
  return WireReader(answer).value<std::uint8_t>() != 0;
}

bool StoreClient::erase(std::string_view key, Deadline deadline) {
  const Bytes answer = ask(StoreOp::Erase, WireWriter().text(key).take(), deadline);
  return WireReader(answer).value<std::uint8_t>() != 0;
}

std::vector<Bytes> StoreClient::all_gather(std::string_view name, int rank, int ranks, std::span<const std::byte> mine,
                                           Deadline deadline) {
  if (rank != options_.rank || ranks != options_.ranks) {
    throw Error(Code::InvalidArgument, fmt::format("all-gather '{}' as rank {} of {} on a connection of rank {} of {}",
                                                   name, rank, ranks, options_.rank, options_.ranks));
  }
  const Bytes answer = ask(StoreOp::AllGather, WireWriter().text(name).bytes(mine).take(), deadline);
  WireReader reader(answer);
  std::vector<Bytes> all;
  for (auto parts = reader.value<std::uint32_t>(); parts > 0; --parts) all.push_back(reader.owned_bytes());
  return all;
}

void StoreClient::roll_call(Deadline deadline) { ask(StoreOp::RollCall, {}, deadline); }

std::vector<SocketAddress> parse_addresses(std::string_view list) {
  std::vector<SocketAddress> all;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    all.push_back(SocketAddress::parse(list.substr(0, comma)));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return all;
}

std::string format_addresses(std::span<const SocketAddress> addresses) {
  std::string list;
  for (const SocketAddress& a : addresses) list += fmt::format("{}{}", list.empty() ? "" : ",", a.text());
  return list;
}

}  // namespace sinew
