#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/base/inline_vector.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {

/// The source of a number. The sources are in the order of trust, the most trusted one first.
enum class CostSource : std::uint8_t {
  TunedFile,  ///< times of whole calls, in a file that the user names
  Measured,   ///< measured on these machines, by this job or an earlier one
  Catalog,    ///< datasheets, or a description of machines that are not here
  Default,    ///< assumed for any machine
};
/// The name of a source, such as "tuned file" or "measured".
SINEW_API std::string_view name_of(CostSource source) noexcept;

/// Rates and times that are assumed for a machine that nobody has measured or described.
namespace assumed {
inline constexpr double kCopyBytesPerS = 8e9;          ///< one core, memory to memory
inline constexpr double kReduceBytesPerS = 6e9;        ///< one core, `dst = a + b`, counted in bytes of dst
inline constexpr double kPinnedCopyBytesPerS = 12e9;   ///< between a device and pinned memory, one way
inline constexpr double kDeviceCopyBytesPerS = 500e9;  ///< within a device's memory
inline constexpr Seconds kDeviceCallSeconds = 10e-6;   ///< launch of a copy or kernel, until the host sees its end
}  // namespace assumed

/// The rate at which a rank does a LocalStep, and the source of that number.
struct Rate {
  double bytes_per_s = 0;  ///< 0: it takes no time
  CostSource source = CostSource::Default;

  Seconds seconds(double bytes) const noexcept { return bytes_per_s == 0 ? 0 : bytes / bytes_per_s; }
};

/// Work that a rank does without a peer.
enum class LocalStep : std::uint8_t {
  Copy,        ///< from memory to memory of the host
  Reduce,      ///< `dst = a + b`
  Code,        ///< encode or decode
  PinnedCopy,  ///< between a device and pinned memory of the host
};

/// A LocalStep on some bytes. `bytes` counts the elements of the result, not their encoded form. If several ranks share
/// a core, `bytes` is the sum over these ranks.
struct LocalWork {
  LocalStep step = LocalStep::Copy;
  double bytes = 0;
  int rank = 0;
  DType dtype = DType::U8;
};

/// Resources that transfers and ranks share.
enum class Resource : std::uint8_t { Core, Port, Memory, Pci, Nic, Leaf };
inline constexpr std::size_t kResources = 6;

/// The number of users of each resource at a time, the asking rank included. 0: the resource limits nobody.
class Sharers {
 public:
  Sharers() noexcept { of_.fill(1); }
  Sharers& set(Resource of, double count) noexcept {
    of_[static_cast<std::size_t>(of)] = count;
    return *this;
  }
  double operator[](Resource of) const noexcept { return of_[static_cast<std::size_t>(of)]; }

 private:
  std::array<double, kResources> of_{};
};

/// A resource on the path of a message, and its bandwidth.
struct Passage {
  Resource resource = Resource::Port;
  double bytes_per_s = 0;
};

/// The cost of messages from one rank to another.
struct LinkCost {
  CostCurve alone;                  ///< the time of a message while no other message is in flight
  InlineVector<Passage, 6> passes;  ///< the resources that limit a message; empty: unknown, only `alone` counts
  bool leaves_host = false;
  CostSource source = CostSource::Default;

  /// The bandwidth of long messages. Infinite if nothing limits them.
  double bytes_per_s() const noexcept {
    return alone.knots.empty() ? std::numeric_limits<double>::infinity() : alone.knots.back().bytes_per_s;
  }
};

/// One of the messages of a call.
struct Transfer {
  int from = 0, to = 0;  ///< ranks in the model's group
  double bytes = 0;      ///< of the whole message
  double segments = 1;   ///< the number of segments in which the message is sent
  bool one_way = false;  ///< true if no rank sends back in the same round, as in broadcast and scatter
  Sharers sharers{};
};

/// The time of a Transfer: start_s for each segment, and per_byte_s for each byte.
struct TransferCost {
  Seconds start_s = 0;
  Seconds per_byte_s = 0;

  Seconds seconds(double bytes) const noexcept { return start_s + bytes * per_byte_s; }
};

/// Tells how long messages, copies and reductions take in a group of ranks. The selector, the simulator and the planner
/// all use it. Derived classes give the numbers and their sources. The formulas are in this class.
/// Units:  seconds, bytes, bytes per second.
/// Thread: const members may be called by any number of threads.
class SINEW_API CostModel {
 public:
  virtual ~CostModel() = default;

  /// The cost of messages between two ranks. Precondition: the ranks are different, and messages can pass between them.
  virtual LinkCost link(int from, int to) const = 0;
  /// The rate at which a rank does this step on elements of this dtype.
  virtual Rate rate(LocalStep step, int rank, DType dtype) const = 0;
  /// The least trusted source among the numbers that a call of all ranks depends on.
  virtual CostSource source() const = 0;

  /// The time of a message. Short messages take less if Transfer::one_way is set.
  TransferCost transfer(const Transfer& what) const;
  Seconds local_s(const LocalWork& what) const { return rate(what.step, what.rank, what.dtype).seconds(what.bytes); }
  /// The time of each call on memory of this kind that its transfers and local work do not include.
  Seconds call_s(MemoryKind kind) const noexcept {
    return kind == MemoryKind::Device ? assumed::kDeviceCallSeconds : 0;
  }
};

}  // namespace sinew
