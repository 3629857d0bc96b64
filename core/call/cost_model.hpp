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

/// Where a number comes from. A later one is trusted less.
enum class CostSource : std::uint8_t {
  TunedFile,  ///< whole calls were timed, and the user names the file
  Measured,   ///< on these machines, by this job or an earlier one
  Catalog,    ///< datasheets, or a description of machines that are not here
  Default,    ///< what sinew assumes of any machine
};
/// "tuned file", "measured", "catalog", "default".
SINEW_API std::string_view name_of(CostSource source) noexcept;

/// What sinew assumes where nobody has measured or described a machine.
namespace assumed {
inline constexpr double kCopyBytesPerS = 8e9;          ///< one core, memory to memory
inline constexpr double kReduceBytesPerS = 6e9;        ///< one core, `dst = a + b`, counted in bytes of dst
inline constexpr double kPinnedCopyBytesPerS = 12e9;   ///< between a device and pinned memory, one way
inline constexpr double kDeviceCopyBytesPerS = 500e9;  ///< within a device's memory
inline constexpr Seconds kDeviceCallSeconds = 10e-6;   ///< a copy or kernel is launched, and the host sees its end
}  // namespace assumed

/// How fast bytes are worked on, and who says so.
struct Rate {
  double bytes_per_s = 0;  ///< 0: it takes no time
  CostSource source = CostSource::Default;

  Seconds seconds(double bytes) const noexcept { return bytes_per_s == 0 ? 0 : bytes / bytes_per_s; }
};

/// What a rank does with bytes by itself.
enum class LocalStep : std::uint8_t {
  Copy,        ///< from memory to memory of the host
  Reduce,      ///< `dst = a + b`
  Code,        ///< encode or decode
  PinnedCopy,  ///< between a device and pinned memory of the host
};

/// A copy or a reduction. `bytes`: of the result, uncoded; where ranks take turns on a core, of all of them together.
struct LocalWork {
  LocalStep step = LocalStep::Copy;
  double bytes = 0;
  int rank = 0;
  DType dtype = DType::U8;
};

/// What transfers and ranks share.
enum class Resource : std::uint8_t { Core, Port, Memory, Pci, Nic, Leaf };
inline constexpr std::size_t kResources = 6;

/// How many use each resource at a time, whoever asks included. 0: the resource does not limit them.
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

/// A resource on the way of a message, and what it carries.
struct Passage {
  Resource resource = Resource::Port;
  double bytes_per_s = 0;
};

/// What carries messages from one rank to another.
struct LinkCost {
  CostCurve alone;                  ///< a message while nothing else is on its way
  InlineVector<Passage, 6> passes;  ///< the resources that limit it; empty: nobody knows, the curve says all
  bool leaves_host = false;
  CostSource source = CostSource::Default;

  /// Of long messages; infinite where nothing limits them.
  double bytes_per_s() const noexcept {
    return alone.knots.empty() ? std::numeric_limits<double>::infinity() : alone.knots.back().bytes_per_s;
  }
};

/// One of the messages of a call.
struct Transfer {
  int from = 0, to = 0;  ///< ranks of the group that the model is of
  double bytes = 0;      ///< of the whole message
  double segments = 1;   ///< in which it is sent
  bool one_way = false;  ///< nobody sends back in the same round: broadcast, scatter
  Sharers sharers{};
};

/// What a Transfer takes: start_s for each segment, and per_byte_s for each byte.
struct TransferCost {
  Seconds start_s = 0;
  Seconds per_byte_s = 0;

  Seconds seconds(double bytes) const noexcept { return start_s + bytes * per_byte_s; }
};

/// Answers what things take in a group of ranks: the one place of these numbers and formulas. Selection predicts with
/// it, the simulator runs schedules on it, and the planner ranks algorithms by it. Those who implement it say numbers
/// and where each comes from; the formulas are here.
/// Units:  seconds, bytes, bytes per second.
/// Thread: const members may be called by any number of threads.
class SINEW_API CostModel {
 public:
  virtual ~CostModel() = default;

  /// Of two different ranks that messages can pass between.
  virtual LinkCost link(int from, int to) const = 0;
  /// How fast a rank does something on this dtype.
  virtual Rate rate(LocalStep step, int rank, DType dtype) const = 0;
  /// The least trusted source of the numbers that a call between all ranks stands on.
  virtual CostSource source() const = 0;

  /// A message of a round in which each rank sends and receives. One that goes one way starts sooner.
  TransferCost transfer(const Transfer& what) const;
  Seconds local_s(const LocalWork& what) const { return rate(what.step, what.rank, what.dtype).seconds(what.bytes); }
  /// What each call on memory of this kind takes beside its transfers and local work.
  Seconds call_s(MemoryKind kind) const noexcept {
    return kind == MemoryKind::Device ? assumed::kDeviceCallSeconds : 0;
  }
};

}  // namespace sinew
