#pragma once

#include <string>

#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// What a file of the checkpoint begins with: the header's length in eight bytes, then the header, to a multiple of 64.
/// A whole item is a tensor of its name and shape. Of a part the name is followed by what it is: `name@4:8`, elements
/// 4 to 8 of the flattened whole, with the shape [rows, ...] where these are whole rows; `name@[0:4,2:8]`, a box, of
/// the box's shape; `name@[0:4,2:8]@3:9`, elements of that.
/// Source: the safetensors format, https://huggingface.co/docs/safetensors
std::string safetensors_header(const CheckpointIndex& index, std::int32_t file);

}  // namespace sinew::parallel
