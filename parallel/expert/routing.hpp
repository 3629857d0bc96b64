#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sinew::parallel {

/// Stands in the place of an expert if there is none, for example if the token was dropped.
inline constexpr std::int32_t kNoExpert = -1;

/// A token that cannot be routed, because one of its logits is not a number.
struct RouterFault {
  std::int64_t token = 0;
  std::int64_t expert = 0;
};

/// The experts to which the tokens of this rank go, and how much each expert counts.
/// Shape: experts and gates [tokens, top_k]. The experts of a token ascend; kNoExpert may be anywhere.
template <class T>
struct Routing {
  std::string router{};  ///< RouterShape::name
  std::int64_t tokens = 0;
  std::int64_t top_k = 1;
  std::vector<std::int32_t> experts{};
  std::vector<T> gates{};
  /// If there is a fault, no token is routed, and a dispatcher tells all ranks.
  std::optional<RouterFault> fault{};
};

/// The places of this rank's tokens in the sequences of a pass, which its group shares.
struct TokenPositions {
  std::int64_t sequences = 1;
  std::int64_t length = 0;               ///< tokens of a sequence, of all ranks together
  std::vector<std::int32_t> sequence{};  ///< by token
  std::vector<std::int32_t> position{};  ///< by token, in its sequence; no two tokens of a group have the same one
};

}  // namespace sinew::parallel
