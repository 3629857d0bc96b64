#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/store/store_connection.hpp>
#include <sinew/core/store/store_service.hpp>

#include "only_errors.hpp"

namespace {

/// The most bytes that a request may have here. The server must never keep more, whatever length a request states.
constexpr std::size_t kLongestRequest = 4096;

void drain(int socket) {
  std::array<char, 4096> answers;
  while (::recv(socket, answers.data(), answers.size(), MSG_DONTWAIT) > 0) {
  }
}

/// Serves the bytes as requests of a client that has been authenticated, or that belongs to the same user.
void serve(const std::uint8_t* data, std::size_t size) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
  const sinew::FileDescriptor client(ends[1]);
  sinew::StoreService service(sinew::StoreService::Options{});
  sinew::Socket server(sinew::FileDescriptor(ends[0]), sinew::Socket::End::Accepts, nullptr);
  sinew::StoreConnection connection(std::move(server), kLongestRequest);
  while (size > 0 && !connection.finished()) {
    const ssize_t sent = ::send(client.get(), data, std::min<std::size_t>(size, kLongestRequest), MSG_NOSIGNAL);
    if (sent <= 0) break;
    data += sent;
    size -= static_cast<std::size_t>(sent);
    connection.read([&](const sinew::Bytes& request) { service.handle(connection, request); });
    drain(client.get());
  }
  service.expire();
  service.lose(0, "it is gone");
  service.forget(connection);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  serve(data, size);
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  sinew::test::only_errors([&] { (void)sinew::StoreWelcome::decode(bytes); });
  sinew::test::only_errors([&] { (void)sinew::StoreIdentity::decode(bytes); });
  return 0;
}
