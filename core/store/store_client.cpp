#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>
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

/// The reason why this listener cannot be used yet.
std::string trouble_with(const Error& e) {
  return e.code() == Code::Timeout ? "whoever listens says nothing" : "the connection ended at once";
}

}  // namespace

StoreClient::StoreClient(Options options, Deadline deadline) : options_(std::move(options)) {
  const Deadline until = deadline.or_after(options_.timeout);
  const StoreIdentity me{options_.group, options_.rank, options_.ranks, ::getpid(), host_name()};
  introduce(StoreOp::Hello, WireWriter().bytes(me.encode()).take(), until);
}

Bytes StoreClient::introduce(StoreOp op, const Bytes& fields, Deadline until) {
  const Options given = options_;
  for (;;) {
    connect(until);
    try {
      return ask(op, fields, until);
    } catch (const Error& e) {
      if (e.code() == Code::Unavailable) {
        found_before_ = fmt::format("{}: {}", peer_.text(), e.what());
        if (until.passed()) throw Error(Code::Timeout, found_before_, e.rank());
        options_ = given;  // the next store may have another secret
        std::this_thread::sleep_for(kLongestPause);
        continue;
      }
      // A crowded server ends connections whose proof it has not read: nobody has heard this rank yet.
      if (broken_.empty() || until.passed()) throw;
    }
  }
}

std::pair<Socket, RelayParent> StoreClient::attach(Options options, const RelayIntroduction& relay, Deadline deadline) {
  StoreClient visitor;
  visitor.options_ = std::move(options);
  const Bytes answer = visitor.introduce(StoreOp::Attach, WireWriter().bytes(relay.encode()).take(), deadline);
  return {std::move(visitor.stream_->socket()), RelayParent::decode(answer)};
}

std::optional<StoreWelcome> StoreClient::who_serves(const SocketAddress& address, Deadline deadline) {
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    auto [socket, error] = try_connect({address}, deadline);
    if (error == ECONNREFUSED) return std::nullopt;
    if (error != 0 && error != EAGAIN && error != ECONNRESET) {
      throw_errno(fmt::format("asking at {} whose store it is", address.text()), error);
    }
    // ECONNRESET: the listener was closed before it accepted this connection. Another one may follow.
    std::string why = error == EAGAIN ? "more wait to be heard than may" : "the listener was closed";
    if (socket) {
      StoreClient visitor;
      why = visitor.greet(Socket(std::move(socket), Socket::End::Connects, nullptr), address, deadline);
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
  std::optional<ServerSearch> search;
  for (;;) {
    if (!search) {
      search.emplace(ServerSearch::Options{.addresses = options_.addresses,
                                           .keys = {options_.secret, options_.tls},
                                           .claim = {.service = kStoreService, .instance = options_.instance},
                                           .may_come = options_.may_come,
                                           .notice = options_.notice,
                                           .found_before = found_before_},
                     deadline);
    }
    auto [socket, at] = search->next();
    const SocketAddress address = options_.addresses[at];
    try {
      const std::string trouble =
          greet(std::move(socket), address, Deadline(std::min(deadline.at(), Clock::now() + kAttempt)));
      if (trouble.empty()) return;
      if (server_.elsewhere.empty()) {
        search->reject(at, fmt::format("{}: {}", address.text(), trouble), false);
      } else {
        search.reset();  // the addresses are other ones now
      }
    } catch (const Error& e) {
      if (e.code() != Code::Mismatch) throw;
      search->reject(at, e.what(), true);
    }
  }
}

std::string StoreClient::greet(Socket socket, const SocketAddress& address, Deadline deadline) {
  const int descriptor = socket.get();
  stream_.emplace(std::move(socket), address.is_unix() ? kWelcomeLimit : kLongestReply);
  replies_.clear();
  peer_ = address;
  broken_.clear();
  if (!address.is_unix()) return {};
  ucred owner{};
  socklen_t length = sizeof owner;
  ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &owner, &length);
  if (owner.uid != ::geteuid()) {
    throw Error(Code::Mismatch, fmt::format("{} is held by user id {} (pid {}), not by this user", address.text(),
                                            owner.uid, owner.pid));
  }
  try {
    server_ = StoreWelcome::decode(receive(deadline));
  } catch (const Error& e) {
    if (e.code() == Code::Mismatch)
      throw Error(Code::Mismatch, fmt::format("{}, process {}: {}", address.text(), owner.pid, e.what()));
    return trouble_with(e);
  }
  stream_->allow(kLongestReply);
  if (!options_.secret.empty() && options_.secret != server_.secret) {
    throw Error(Code::Mismatch, fmt::format("{}: process {} serves the store of a job with another secret",
                                            address.text(), server_.pid));
  }
  options_.secret = server_.secret;
  if (server_.elsewhere.empty()) return {};
  options_.addresses = parse_addresses(server_.elsewhere);
  return "the store is at " + server_.elsewhere;
}

void StoreClient::lost(const std::string& how) {
  const bool is_silent = how == std::generic_category().message(ETIMEDOUT);
  const std::string more =
      is_silent ? ": its host is down, or the network loses packets, such as those longer than the MTU of a link; "
                  "sinew-info doctor tries all ways"
                : "";
  std::string who = "rank 0";
  int rank = 0;
  switch (server_.host) {
    case StoreHost::Rank: break;
    case StoreHost::Launcher:
      who = "the launcher";
      rank = -1;
      break;
    case StoreHost::Relay:
      rank = server_.rank;
      broken_ = fmt::format("rank {} (process {}), which leads the ranks of this host to the store, is gone ({})", rank,
                            server_.pid, how);
      throw Error(Code::PeerLost, broken_, rank);
  }
  broken_ = fmt::format("{}, which serves the store at {}, is gone ({}{})", who, peer_.text(), how, more);
  throw Error(Code::PeerLost, broken_, rank);
}

bool StoreClient::wait(Deadline deadline) {
  const auto interest = stream_->interest();
  const short events = static_cast<short>(POLLIN | (interest.write ? POLLOUT : 0));
  for (;;) {
    pollfd socket{stream_->descriptor(), events, 0};
    const int ready = ::poll(&socket, 1, deadline.left_ms(60000));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("store: waiting for the server");
    if (deadline.passed()) return false;
  }
}

/// Writes the bytes that the socket takes, and reads the replies that have come.
void StoreClient::move_on() {
  stream_->flush();
  stream_->read([this](Bytes message) { replies_.push_back(std::move(message)); });
  if (!stream_->ended() || !replies_.empty()) return;
  if (stream_->has_broken_protocol()) {
    broken_ = fmt::format("{}: {}: it is no store", peer_.text(), stream_->reason());
    throw Error(Code::Mismatch, broken_);
  }
  lost(stream_->reason());
}

void StoreClient::send(std::shared_ptr<const Bytes> frame, Deadline deadline) {
  stream_->send(std::move(frame));
  for (move_on(); !stream_->idle(); move_on()) {
    if (wait(deadline)) continue;
    broken_ = fmt::format("the store at {} took no more bytes before the deadline", peer_.text());
    throw Error(Code::Timeout, broken_);
  }
}

Bytes StoreClient::receive(Deadline deadline) {
  for (move_on(); replies_.empty(); move_on()) {
    if (wait(deadline)) continue;
    broken_ = fmt::format("the store at {} did not answer before the deadline", peer_.text());
    throw Error(Code::Timeout, broken_);
  }
  Bytes reply = std::move(replies_.front());
  replies_.pop_front();
  return reply;
}

Bytes StoreClient::ask(StoreOp op, const Bytes& fields, Deadline deadline) {
  const std::scoped_lock lock(mutex_);
  if (!broken_.empty()) throw Error(Code::PeerLost, broken_);
  return ask_locked(op, fields, deadline.or_after(options_.timeout));
}

Bytes StoreClient::ask_locked(StoreOp op, const Bytes& fields, Deadline deadline) {
  send(FramedStream::frame(WireWriter().value(op).value(milliseconds_until(deadline)).rest(fields).take()), deadline);
  const Bytes reply = receive(with_grace(deadline));
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

FormedRound StoreClient::next_round(const MemberRequest& request, Deadline deadline) {
  return FormedRound::decode(ask(StoreOp::NextRound, WireWriter().bytes(request.encode()).take(), deadline));
}

bool StoreClient::is_change_due(Deadline deadline) {
  const Bytes answer = ask(StoreOp::ChangeDue, {}, deadline);
  return WireReader(answer).value<std::uint8_t>() != 0;
}

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
