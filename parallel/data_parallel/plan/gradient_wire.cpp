#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/parallel/data_parallel/plan/gradient_wire.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kPiece = 16 * kScaledBlock;  // elements; they stay in the L1 cache

void complain_of_int4(std::vector<std::string>& wrong, const GradientWire& wire, Determinism determinism,
                      const DataRow& row) {
  if (sharded_axis(row).parameter == Held::Whole)
    wrong.push_back(
        fmt::format("gradients int4: row '{}' keeps whole parameters; expected one that shards them", row.name));
  if (determinism == Determinism::LayoutInvariant)
    wrong.emplace_back(
        "gradients int4 and layout_invariant: what is rounded depends on the layout; expected plain "
        "gradients, or fast or reproducible");
  if (wire.codec != Codec::None)
    wrong.push_back(fmt::format("gradients int4 and codec {}: expected one of them", name_of(wire.codec)));
  if (wire.error_feedback)
    wrong.emplace_back("gradients int4 with error feedback: expected a codec with error feedback, or int4 without it");
}

}  // namespace

std::vector<std::string> violations_of(const GradientWire& wire, Determinism determinism, const DataRow& row,
                                       const std::vector<DataParameter>& parameters) {
  std::vector<std::string> wrong;
  if (wire.int4) {
    complain_of_int4(wrong, wire, determinism, row);
    return wrong;
  }
  if (wire.codec == Codec::None) {
    if (wire.error_feedback) wrong.emplace_back("error feedback without a codec: nothing is lost");
    return wrong;
  }
  const std::string_view codec = name_of(wire.codec);
  if (determinism != Determinism::Fast)
    wrong.push_back(fmt::format("codec {} with determinism: what is rounded on the way depends on the way", codec));
  for (const DataParameter& p : parameters) {
    if (p.gradient_dtype() == DType::F32) continue;
    wrong.push_back(fmt::format("codec {}: the gradient of '{}' is of {}, expected f32", codec, p.path,
                                name_of(p.gradient_dtype())));
    break;
  }
  return wrong;
}

void feed_back(Codec codec, std::span<float> values, std::span<float> residual) {
  const CodecKernels kernels = codec_kernels(codec);
  std::array<std::byte, wire_bytes(Codec::None, kPiece)> coded;  // no codec needs more bytes
  std::array<float, kPiece> whole;
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, values.size() - first);
    float* value = values.data() + first;
    float* rest = residual.data() + first;
    for (std::size_t i = 0; i < count; ++i) whole[i] = value[i] + rest[i];
    kernels.encode(coded.data(), whole.data(), count);
    kernels.decode(value, coded.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const float lost = whole[i] - value[i];
      rest[i] = std::isfinite(lost) ? lost : 0;
    }
  }
}

}  // namespace sinew::parallel
