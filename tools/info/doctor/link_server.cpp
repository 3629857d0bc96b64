#include "link_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

#include "timed_socket.hpp"

namespace sinew::doctor {
namespace {

constexpr std::uint32_t kService = 0x31636f64;  // "doc1"
constexpr std::size_t kMostGuests = 64;
constexpr int kBreatheMs = 10;
constexpr auto kPatience = std::chrono::seconds(10);
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

FileDescriptor new_event() {
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw_errno("eventfd");
  return event;
}

}  // namespace

LinkServer::LinkServer(Bytes secret, std::optional<std::pair<std::uint16_t, std::uint16_t>> ports)
    : secret_(std::move(secret)),
      claim_{.service = kService, .instance = random_id()},
      listener_(listen_everywhere(0, ports)),
      stop_(new_event()) {
  thread_ = thread_without_signals([this] { accept_guests(); });
}

LinkServer::~LinkServer() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  thread_.join();
}

void LinkServer::accept_guests() {
  std::array<pollfd, 2> entries{pollfd{listener_.socket.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
  while (entries[1].revents == 0) {
    if (::poll(entries.data(), entries.size(), -1) <= 0) continue;
    for (Guest& g : guests_) {
      if (g.gone) g.thread.join();
    }
    guests_.remove_if([](const Guest& g) { return !g.thread.joinable(); });
    FileDescriptor socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) ::poll(&entries[1], 1, kBreatheMs);  // no descriptor is free, and the guest goes on knocking
    if (socket && guests_.size() < kMostGuests) admit(std::move(socket));
  }
  for (Guest& g : guests_) g.thread.join();
}

void LinkServer::admit(FileDescriptor socket) {
  Guest& guest = guests_.emplace_back();
  try {
    guest.thread = thread_without_signals([this, &guest, taken = std::make_shared<FileDescriptor>(std::move(socket))] {
      serve(std::move(*taken));
      guest.gone = true;
    });
  } catch (const std::system_error& e) {  // no thread is to be had: the guest sees its connection closed
    log::debug("doctor: a probe is not heard: {}", e.what());
    guests_.pop_back();
  }
}

void LinkServer::serve(FileDescriptor accepted) const {
  try {
    TimedSocket socket(std::move(accepted), stop_.get());
    socket.prove(Authentication::acceptor(secret_, claim_), Deadline::after(kPatience));
    std::vector<std::byte> piece(kPieceBytes);
    for (;;) {
      std::uint64_t left = 0;
      socket.receive(std::as_writable_bytes(std::span(&left, 1)), Deadline::after(kPatience));
      if (left > kLongestRequest) return;
      for (; left > 0; left -= std::min<std::uint64_t>(left, kPieceBytes)) {
        socket.receive(std::span(piece).first(std::min<std::uint64_t>(left, kPieceBytes)), Deadline::after(kPatience));
      }
      socket.send(std::span(piece).first(1), Deadline::after(kPatience));
    }
  } catch (const Error& e) {
    log::debug("doctor: a probe has ended: {}", e.what());  // the other side says what it means
  }
}

}  // namespace sinew::doctor
