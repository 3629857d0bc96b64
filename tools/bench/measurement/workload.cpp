#include "workload.hpp"

#include <cstring>
#include <utility>

#include <sinew/core/host/cpu.hpp>

namespace sinew::tools {
namespace {

constexpr std::uint64_t kRoundStep = 331;
constexpr std::uint64_t kSlotStep = 17;

std::uint64_t touch(ConstBuffer buffer) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < buffer.bytes; at += kCacheLine) sum += std::to_integer<std::uint64_t>(buffer.data[at]);
  return sum;
}

}  // namespace

Workload::Workload(RankData data, std::size_t element_bytes, const BufferRing& ring, check::ExactRows& rows, bool check)
    : data_(std::move(data)), element_bytes_(element_bytes), ring_(ring), rows_(rows), check_(check) {}

std::uint64_t Workload::start_of(std::size_t slot) const noexcept { return round_ * kRoundStep + slot * kSlotStep; }

void Workload::rewrite(std::size_t slots) {
  ++round_;
  for (std::size_t s = 0; s < slots; ++s) {
    const Buffer target = data_.in_elements > 0 ? ring_.host_in(s) : ring_.host_out(s);
    for (const Segment& g : data_.given) {
      rows_.write(target.data + g.at * element_bytes_, g.source, start_of(s) + g.first, g.count);
    }
  }
  ring_.give(slots);
}

void Workload::read(std::size_t slots) {
  ring_.take(slots);
  for (std::size_t s = 0; s < slots; ++s) {
    const Buffer out = ring_.host_out(s);
    if (!check_) read_sum_ += touch(out);
    for (const Segment& e : data_.expected) {
      if (!check_) break;
      wrong_ += rows_.differing(out.data + e.at * element_bytes_, e.source, start_of(s) + e.first, e.count);
    }
  }
}

}  // namespace sinew::tools
