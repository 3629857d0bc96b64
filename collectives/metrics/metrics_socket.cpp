#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/metrics/metrics_socket.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>

namespace sinew {
namespace {

constexpr std::size_t kLongestRequest = 8192;
constexpr std::size_t kMostClients = 8;
constexpr auto kClientHas = std::chrono::seconds(5);

sockaddr_un address_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(Code::InvalidArgument, fmt::format("a path of {} characters; a socket's has at most {}", path.size(),
                                                   sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) noexcept { return reinterpret_cast<const sockaddr*>(&address); }

/// True if a process listens there, or if this cannot be found out.
bool is_listened_at(const sockaddr_un& address) {
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return !probe || ::connect(probe.get(), generic(address), sizeof address) == 0 || errno != ECONNREFUSED;
}

/// The socket file of a process that has gone.
bool is_abandoned(const std::string& path, const sockaddr_un& address) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode) && !is_listened_at(address);
}

std::string answer(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                     type, body.size(), body);
}

/// The answer to a request line such as "GET /metrics HTTP/1.1".
std::string answer_to(std::string_view line, const std::function<std::string()>& text) {
  constexpr std::string_view kPlain = "text/plain; charset=utf-8";
  const std::size_t method = line.find(' ');
  const std::size_t target = line.rfind(" HTTP/1.");
  if (method == std::string_view::npos || target == std::string_view::npos || target <= method)
    return answer("400 Bad Request", kPlain, "expected GET /metrics HTTP/1.1\n");
  if (line.substr(0, method) != "GET") return answer("405 Method Not Allowed", kPlain, "expected GET\n");
  const std::string_view asked = line.substr(method + 1, target - method - 1);
  if (asked.substr(0, asked.find('?')) != "/metrics") return answer("404 Not Found", kPlain, "expected /metrics\n");
  return answer("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text());
}

}  // namespace

/// One connection: it reads a request, writes the answer, and ends.
class MetricsSocket::Client {
 public:
  Client(MetricsSocket& of, FileDescriptor socket)
      : of_(of),
        socket_(std::move(socket)),
        timer_(of.loop_),
        watch_(of.loop_.watch(socket_.get(), {.read = true}, [this] { is_over(go_on()); })) {
    timer_.start(kClientHas, [this] { is_over(true); });
  }

 private:
  /// Returns true if the connection is over.
  bool go_on() {
    if (answer_.empty() && !read()) return true;
    if (answer_.empty()) return false;
    watch_.want({.write = true});
    while (written_ < answer_.size()) {
      const ssize_t took =
          ::send(socket_.get(), answer_.data() + written_, answer_.size() - written_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (took < 0) return errno != EAGAIN && errno != EINTR;
      written_ += static_cast<std::size_t>(took);
    }
    return true;
  }

  /// Returns false if the client has gone. Makes the answer once the request is whole.
  bool read() {
    std::array<char, 1024> room;
    const ssize_t came = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (came < 0) return errno == EAGAIN || errno == EINTR;
    if (came == 0) return false;
    request_.append(room.data(), static_cast<std::size_t>(came));
    const std::string_view request(request_);
    if (request.find("\r\n\r\n") != std::string_view::npos) {
      answer_ = answer_to(request.substr(0, request.find("\r\n")), of_.text_);
    } else if (request.size() > kLongestRequest) {
      answer_ = answer("431 Request Header Fields Too Large", "text/plain", "");
    }
    return true;
  }

  /// Destroys this object if `over`.
  void is_over(bool over) {
    if (over) of_.drop(*this);
  }

  MetricsSocket& of_;
  FileDescriptor socket_;
  std::string request_;
  std::string answer_;
  std::size_t written_ = 0;
  EventLoop::Timer timer_;
  EventLoop::Watch watch_;  // destroyed before the socket that it watches
};

MetricsSocket::MetricsSocket(EventLoop& loop, std::string path, std::function<std::string()> text)
    : loop_(loop), path_(std::move(path)), text_(std::move(text)) {
  FileDescriptor socket = listen();
  struct stat there {};
  if (::stat(path_.c_str(), &there) == 0) device_ = there.st_dev, number_ = there.st_ino;
  acceptor_ = std::make_unique<Acceptor>(
      loop_, Listener{std::move(socket), {}}, [this] { return clients_.size() < kMostClients; },
      [this](FileDescriptor client) { take(std::move(client)); });
}

MetricsSocket::~MetricsSocket() {
  struct stat there {};
  if (fork_.in_child() || ::stat(path_.c_str(), &there) != 0) return;
  if (there.st_dev == device_ && there.st_ino == number_) ::unlink(path_.c_str());
}

FileDescriptor MetricsSocket::listen() {
  const sockaddr_un address = address_at(path_);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno("a Unix socket");
  int failed = ::bind(socket.get(), generic(address), sizeof address);
  if (failed != 0 && errno == EADDRINUSE) {
    if (!is_abandoned(path_, address))
      throw Error(Code::System, "the path is taken; expected a path for each job, such as one with %p for the process");
    ::unlink(path_.c_str());
    failed = ::bind(socket.get(), generic(address), sizeof address);
  }
  if (failed != 0 || ::listen(socket.get(), kMostClients) != 0) throw_errno("listening there");
  return socket;
}

void MetricsSocket::take(FileDescriptor socket) {
  try {
    clients_.push_back(std::make_unique<Client>(*this, std::move(socket)));
  } catch (const Error& e) {
    log::debug("a client of SINEW_METRICS_SOCKET={}: {}", path_, e.what());  // the kernel watches no more descriptors
  }
}

void MetricsSocket::drop(const Client& client) {
  std::erase_if(clients_, [&](const auto& c) { return c.get() == &client; });
  acceptor_->resume();
}

}  // namespace sinew
