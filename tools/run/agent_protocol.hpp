#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <sinew/core/transport.hpp>
#include <sinew/tools/run/output/stream.hpp>

#include "local_ranks.hpp"

// sinew-run starts one agent per other host, through ssh, and talks to it over its standard input and output.
//   to the agent:    u32 length, AgentTask; then AgentOrders; end of file: end everything
//   from the agent:  kAgentGreeting, after whatever the remote shell prints, then frames: AgentFrame, payload
namespace sinew::run {

inline constexpr std::string_view kAgentGreeting = "\nsinew-run agent 4\n";

/// Everything that a host's share of the job needs. The secret travels here, never on a command line.
struct AgentTask {
  LocalPlan plan;
  std::uint16_t master_port = 0;
  std::string job;
  std::string store;  ///< addresses, comma-separated
  Bytes secret;

  Bytes encode() const;
  /// Errors: Error{Mismatch} if it is none.
  static AgentTask decode(std::span<const std::byte> bytes);
};

/// What an agent shall do with its ranks while they run.
struct AgentOrder {
  enum class Kind : std::uint8_t { Signal, Hold, Release };
  Kind kind{};
  int number = 0;  ///< the signal, or of Hold and Release the rank
  Stream stream = Stream::Output;

  static constexpr std::size_t kBytes = 6;
  std::string encode() const;
  /// `bytes`: kBytes of them. Errors: Error{Mismatch} if they are none.
  static AgentOrder decode(std::string_view bytes);
};

enum class FrameKind : std::uint8_t { Output, Errors, Ended, Warned, Broken };

struct AgentFrame {
  FrameKind kind{};
  std::int32_t rank = -1;
  std::uint32_t bytes = 0;  ///< of the payload: output, an Ending (encode_ending), or a message
};
inline constexpr std::uint32_t kLongestFrame = 1 << 20;

/// Cuts what an agent writes into frames.
class FrameReader {
 public:
  using Take = std::function<void(const AgentFrame& frame, std::string_view payload)>;
  /// Errors: Error{Mismatch} where the bytes are no frame.
  void take(std::string_view bytes, const Take& each);
  bool greeted() const noexcept { return greeted_; }

 private:
  bool greeted_ = false;
  std::string rest_;
};

std::string encode_frame(FrameKind kind, int rank, std::string_view payload);
/// Code, signal, core and pid as i32, then the last lines of standard error.
std::string encode_ending(const Ending& ending);
Ending decode_ending(std::string_view payload);

}  // namespace sinew::run
