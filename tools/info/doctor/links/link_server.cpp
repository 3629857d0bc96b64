#include "link_server.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
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
constexpr auto kPatience = std::chrono::seconds(10);
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

FileDescriptor new_event() {
  FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw_errno("eventfd");
  return event;
}

}  // namespace

LinkServer::LinkServer(const Bytes& secret, std::optional<std::pair<std::uint16_t, std::uint16_t>> ports)
    : claim_{.service = kService, .instance = random_id()},
      stop_(new_event()),
      port_(port_of_process({.range = ports})),
      service_(port_->serve(claim_, secret, [this](const AuthClaim&, Socket socket) { admit(std::move(socket)); })) {}

LinkServer::~LinkServer() {
  service_ = {};
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  for (Guest& g : guests_) g.thread.join();
}

void LinkServer::admit(Socket socket) {
  for (Guest& g : guests_) {
    if (g.gone) g.thread.join();
  }
  guests_.remove_if([](const Guest& g) { return !g.thread.joinable(); });
  if (guests_.size() >= kMostGuests) return;
  Guest& guest = guests_.emplace_back();
  try {
    guest.thread = thread_without_signals([this, &guest, taken = std::make_shared<Socket>(std::move(socket))] {
      serve(std::move(*taken));
      guest.gone = true;
    });
  } catch (const std::system_error& e) {  // no thread is to be had: the guest sees its connection closed
    log::debug("doctor: a probe is not heard: {}", e.what());
    guests_.pop_back();
  }
}

void LinkServer::serve(Socket accepted) const {
  try {
    TimedSocket socket(std::move(accepted), stop_.get());
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
