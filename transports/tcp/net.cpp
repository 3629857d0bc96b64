#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <span>

#include <sinew/transports/tcp/net.hpp>

namespace sinew::tcp {
namespace {

constexpr int kUnsentBytes = 256 * 1024;
constexpr unsigned kUnanswered = 3;  // attempts, each twice as long as the last
constexpr unsigned kSilentMs = 3000;

void set(int socket, int level, int option, int value) noexcept {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

void say(Socket& socket, Consent consent) noexcept {
  // One byte always fits the empty buffer of a new connection; a peer that has gone needs no answer.
  static_cast<void>(socket.send(std::as_bytes(std::span(&consent, 1))));
}

void queue_little(int socket) noexcept { set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes); }

bool is_by_peer(int error) noexcept { return error == 0 || error == ECONNRESET || error == EPIPE || error == EPROTO; }

// Not TCP_USER_TIMEOUT: it ends connections to a rank that computes for long and so takes nothing, too.
bool is_silent(int socket) noexcept {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  const bool unanswered = info.tcpi_retransmits >= kUnanswered || info.tcpi_probes >= kUnanswered;
  return unanswered && info.tcpi_last_ack_recv >= kSilentMs;
}

bool is_outstanding(int socket) noexcept {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes != 0;
}

}  // namespace sinew::tcp
