#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/store/store_server.hpp>

namespace sinew::test {

inline constexpr auto kLong = std::chrono::seconds(60);  // a hang, not a slow machine

inline Bytes bytes_of(std::string_view text) {
  const auto b = std::as_bytes(std::span(text));
  return {b.begin(), b.end()};
}

/// Runs `call` and gives the Error it ends with.
inline Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::Ok, "no error");
}

/// Sends raw bytes and reads until the server closes; how many bytes came back.
inline std::size_t talk(const SocketAddress& address, const Bytes& bytes) {
  auto [socket, error] = try_connect({address}, Deadline::after(kLong));
  EXPECT_EQ(error, 0);
  ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::shutdown(socket.get(), SHUT_WR);
  timeval limit{60, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::size_t total = 0;
  std::array<std::byte, 4096> in;  // not a page
  for (;;) {
    const ssize_t got = ::recv(socket.get(), in.data(), in.size(), 0);
    if (got > 0) total += static_cast<std::size_t>(got);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return total;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The bytes of clients of the same user that do not keep to the protocol.
inline std::vector<Bytes> misbehaviours() {
  Bytes huge(4, std::byte(0xff));       // announces 4 GiB
  const Bytes hollow(4, std::byte(0));  // an empty request
  Bytes no_hello = bytes_of("\x05");    // five bytes: Set before Hello
  no_hello.resize(9);
  no_hello[4] = std::byte(1);
  Bytes impatient;  // a second all-gather before the answer to the first one
  const auto add = [&impatient](StoreOp op, const Bytes& fields) {
    const auto frame = FramedStream::frame(WireWriter().value(op).value(kWaitForever).rest(fields).take());
    impatient.insert(impatient.end(), frame->begin(), frame->end());
  };
  add(StoreOp::Hello, WireWriter().bytes(StoreIdentity{"impatient", 0, 2, 1, "h"}.encode()).take());
  for (int i = 0; i < 2; ++i) add(StoreOp::AllGather, WireWriter().text("name").bytes(Bytes{}).take());
  return {std::move(huge), hollow, std::move(no_hello), Bytes(100000, std::byte(0x20)), std::move(impatient)};
}

/// A store with as many handles as there are ranks: each what one process would hold.
struct StoreUnderTest {
  virtual ~StoreUnderTest() = default;
  virtual std::shared_ptr<Store> handle(int rank, int ranks) = 0;
};

struct Served final : StoreUnderTest {
  explicit Served(bool over_tcp, const TlsFiles& files = {})
      : tcp(over_tcp),
        tls(TlsContext::open(files)),
        thread(std::make_unique<StoreServerThread>(StoreServerOptions{.secret = secret})) {
    if (tcp) {
      auto port = port_of_process({.tls = files});
      address = SocketAddress::parse("127.0.0.1:0").with_port(port->number());
      thread->serve(std::move(port), instance);
    } else {
      Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
      address = listener.address;
      thread->listen(std::move(listener));
    }
  }
  std::shared_ptr<Store> handle(int rank, int ranks) override {
    StoreClient::Options options;
    options.addresses = {address};
    if (tcp) options.secret = secret;
    options.tls = tls;
    options.instance = instance;
    options.group = fmt::format("world of {}", ranks);
    options.rank = rank;
    options.ranks = ranks;
    options.timeout = kLong;
    return std::make_shared<StoreClient>(options, Deadline::after(kLong));
  }
  bool tcp;
  std::shared_ptr<const TlsContext> tls;
  Bytes secret = random_secret();
  std::uint64_t instance = random_id();
  SocketAddress address;
  std::unique_ptr<StoreServerThread> thread;
};

class ServedStore : public testing::Test {
 protected:
  Served served{true};
  Served local{false};
};

}  // namespace sinew::test
