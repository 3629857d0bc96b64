#include <utility>

#include <sinew/collectives/control/host_link.hpp>
#include <sinew/core/net/stream_socket.hpp>

namespace sinew {

HostLink::HostLink(Socket socket, int peer, bool connects, std::string address)
    : stream_(std::move(socket), kLongestFrame + 1), peer_(peer), connects_(connects), address_(std::move(address)) {
  keep_alive(stream_.descriptor(), true);
  end_if_unanswered(stream_.descriptor(), true);
}

void HostLink::serve(const Take& take) {
  stream_.read([&](const Bytes& message) {
    if (message.empty()) return stream_.end("a control message of no bytes");
    take(static_cast<LinkFrame>(message.front()), std::span(message).subspan(1));
  });
  stream_.flush();
}

void HostLink::send(LinkFrame type, std::span<const std::byte> head, std::span<const std::byte> body) {
  Bytes message;
  message.reserve(1 + head.size());
  message.push_back(static_cast<std::byte>(type));
  message.insert(message.end(), head.begin(), head.end());
  stream_.send(FramedStream::frame(message, body));
}

}  // namespace sinew
