#include <cmath>

#include <sinew/core/base/names.hpp>
#include <sinew/core/numeric/codec.hpp>

namespace sinew {
namespace {

constexpr Spelling<Codec> kCodecNames[] = {{"none", Codec::None},
                                           {"bf16", Codec::Bf16},
                                           {"int8", Codec::Int8},
                                           {"f16", Codec::F16},
                                           {"f8e4m3", Codec::F8E4M3}};

}  // namespace

std::string_view name_of(Codec codec) noexcept { return find_name(kCodecNames, codec); }

std::optional<Codec> codec_from_name(std::string_view name) noexcept { return find_value(kCodecNames, name); }

/// A block decodes to nothing larger than it was, so the errors of int8 and f8e4m3 add up. The errors of halves grow
/// with what they add to. The numbers of f8e4m3 are at most 32 apart, and the largest is 448, both times the scale.
double coding_error(Codec codec, int codings, double magnitude) noexcept {
  switch (codec) {
    case Codec::None: return 0;
    case Codec::Bf16: return magnitude * std::expm1(codings * std::log1p(1.0 / 256));
    case Codec::F16: return magnitude * std::expm1(codings * std::log1p(1.0 / 2048));
    case Codec::Int8: return magnitude * codings / 253;
    case Codec::F8E4M3: return magnitude * codings / 27.9;
  }
  return 0;
}

}  // namespace sinew
