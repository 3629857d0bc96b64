#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <sinew/core/log.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/tcp/control_channel.hpp>
#include <sinew/transports/tcp/data_channel.hpp>

namespace {

using namespace sinew::tcp;

constexpr std::size_t kMessageBytes = 1000;
constexpr std::size_t kMessages = 3;
constexpr std::size_t kScratchBytes = 4096;

/// What an endpoint makes of frames must lie in what has come, and in the receiver's buffer.
struct Endpoint final : ControlEvents, DataEvents {
  Endpoint() {
    for (Incoming& in : messages) in.bytes = in.left = kMessageBytes;
  }
  void control_frame(const FrameHeader& header, const std::byte* payload) override {
    if (header.kind != FrameKind::Eager) return;
    for (std::uint64_t i = 0; i < header.bytes; ++i) sum += static_cast<unsigned>(payload[i]);
  }
  void eager_written(sinew::Completion&) override { std::abort(); }
  void data_written(sinew::Completion&) override { std::abort(); }
  Incoming* incoming(std::uint32_t number) override {
    return number < kMessages && !over[number] ? &messages[number] : nullptr;
  }
  void arrived(Incoming& in, std::size_t at, const std::byte*, std::size_t bytes) override {
    if (at + bytes > in.bytes) std::abort();
  }
  void ended(std::uint32_t number) override { over[number] = true; }

  std::array<Incoming, kMessages> messages;
  std::array<bool, kMessages> over{};
  unsigned sum = 0;
};

template <class Channel>
void read_all(Channel& channel, int from, const std::uint8_t* data, std::size_t size, std::span<std::byte> scratch) {
  while (size > 0) {
    const ssize_t sent = ::send(from, data, std::min<std::size_t>(size, 8192), MSG_NOSIGNAL);
    if (sent <= 0) return;
    data += sent;
    size -= static_cast<std::size_t>(sent);
    if (channel.read(scratch) == ChannelState::Ended) return;
  }
}

}  // namespace

/// The first byte: which connection of a pair it is, and whether the pair has several rails.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static std::vector<std::byte> scratch(kScratchBytes);
  sinew::log::set_level(sinew::log::Level::Off);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
  sinew::Socket here(sinew::FileDescriptor{ends[0]}, sinew::Socket::End::Accepts, nullptr);
  const sinew::FileDescriptor there(ends[1]);
  Endpoint endpoint;
  const bool rails = (*data & 1) != 0;
  if ((*data & 2) != 0) {
    ControlChannel channel(endpoint);
    if (rails) channel.outlive_connections();
    channel.attach(&here);
    read_all(channel, there.get(), data + 1, size - 1, scratch);
  } else {
    Outgoing outgoing;
    DataChannel channel(endpoint, outgoing, rails);
    channel.attach(&here);
    read_all(channel, there.get(), data + 1, size - 1, scratch);
  }
  return 0;
}
