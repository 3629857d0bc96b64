#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sinew::parallel {

/// In a place for an expert: there is none, as where the token was dropped.
inline constexpr std::int32_t kNoExpert = -1;

/// A token that cannot be routed: one of its logits is no number.
struct RouterFault {
  std::int64_t token = 0;
  std::int64_t expert = 0;
};

/// Which experts the tokens of this rank go to, and how much each of them counts.
/// Shape: experts and gates [tokens, top_k]; the experts of a token ascend, kNoExpert may stand anywhere.
template <class T>
struct Routing {
  std::string router;  ///< RouterShape::name
  std::int64_t tokens = 0;
  std::int64_t top_k = 1;
  std::vector<std::int32_t> experts;
  std::vector<T> gates;
  /// Nothing of it is routed then; a dispatcher tells all ranks of it.
  std::optional<RouterFault> fault;
};

/// Where the tokens of this rank are in the sequences of a pass, which its group shares.
struct TokenPositions {
  std::int64_t sequences = 1;
  std::int64_t length = 0;             ///< tokens of a sequence, all ranks together
  std::vector<std::int32_t> sequence;  ///< by token
  std::vector<std::int32_t> position;  ///< by token, in its sequence; no two of a group have the same
};

}  // namespace sinew::parallel
