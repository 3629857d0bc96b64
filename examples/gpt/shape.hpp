#pragma once

namespace gpt {

/// What a model is: a GPT-2 over bytes. Its tokens are the 256 values of a byte.
struct Shape {
  int layers = 4;
  int heads = 4;
  int width = 128;   ///< elements of an activation; heads divide it
  int context = 64;  ///< bytes of a sequence

  int head_width() const noexcept { return width / heads; }
};

inline constexpr int kVocabulary = 256;

/// Errors: InvalidArgument that lists everything that is wrong, with the nearest number of heads where they do not fit.
void require_shape(const Shape& shape);

}  // namespace gpt
