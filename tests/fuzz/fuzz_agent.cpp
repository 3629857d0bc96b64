#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <sinew/core/error.hpp>
#include <sinew/tools/run/agent_protocol.hpp>

namespace {

using namespace sinew::run;

template <class Read>
void read(Read call) {
  try {
    call();
  } catch (const sinew::Error& e) {
    if (e.code() != sinew::Code::Mismatch || std::string_view(e.what()).empty()) std::abort();
  }
}

}  // namespace

/// What a remote shell and an agent print, in two pieces, and what an agent is told.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read([&] {
    FrameReader reader;
    const auto take = [](const AgentFrame& frame, std::string_view payload) {
      if (payload.size() != frame.bytes) std::abort();
      if (frame.kind == FrameKind::Ended) (void)decode_ending(payload).text();
    };
    reader.take(text.substr(0, size / 2), take);
    reader.take(text.substr(size / 2), take);
  });
  read([&] { (void)AgentTask::decode(std::as_bytes(std::span(text))); });
  return 0;
}
