#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
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
